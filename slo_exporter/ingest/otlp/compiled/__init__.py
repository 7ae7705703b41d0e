"""
The decoder in machine code: equal to the authority (`..decode`), or it declines.

```
decoder     a body and the asked-for keys ──▶ SpanBatch and Refusals, or None; bodies ──▶ their digests
  shapes      which fields the messages have, from the installed descriptors
  names       the asked-for keys and events as hash tables
  arrays      what the kernel reads and fills
  plan        where each key's values go
  assemble    from filled arrays to columns
  digests     which bodies are hashed side by side, and what they are hashed in
kernel      the entry points, of which `..native` makes machine code
  layers      survey: where resources, scopes and spans stand
  filling     fill: the walk over them, of which
    spans       one span
    sink        the cells of its attributes
    values      a key and a value
  dense       columns: from cells to columns
  hashing     digest: bodies over lanes, of which
    compression four blocks at a time, in LLVM's language
  wire, texts what all of them read and compare with
  jit         how functions become machine code
```
Rules of this package:

1. It never guesses: what it does not fully understand it declines.
2. It accepts nothing that the protobuf library refuses: what nobody asked for is checked all the same.
3. Every read is bounded by its message, and numba checks every index once more; but in what is `jit.bounded`,
   which looks once whether all is there: the innermost loops.
4. Only `kernel` and what it is made of import numba.
"""
