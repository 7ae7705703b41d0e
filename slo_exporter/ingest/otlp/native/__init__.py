"""
From a kernel's source to functions that run here, with numba in a child and never in the daemon.

| goes in | a package: ``kernel``, whose ``ENTRIES`` numba compiled, and ``decoder`` with `CompiledDecoder` |
| comes out | a `CompiledDecoder` around the linked functions, or `CompilingError`, which says why not |

Read compiling first. In the order of a first start:

| file | where | does |
|---|---|---|
| compiling | daemon | looks for kept code, else starts the child |
| emitting | child | its main: one object file of all entry points |
| lowering | child | numba as a front end, and no more |
| unboxing | child | for each entry point the way in from Python, in LLVM's language |
| trial | child | an export through the new decoder and the authority |
| machine_code | both | the object file as bytes, and how its functions are called |
| code_cache | daemon | keeps those bytes where nobody else may write |
| linking | both | from bytes to callables, with LLVM's linker |

Only the trial knows what the kernel is for. Why it is so: docs/adr/0009-compiled-decoder.md.
"""
