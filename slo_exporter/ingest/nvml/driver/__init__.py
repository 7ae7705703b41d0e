"""
The only door to the NVML library: a binding of the getters that are used, and of nothing that sets.

| module | is |
|---|---|
| abi | structures, constants and version words |
| functions | signatures, and a call that is measured |
| buffers | what answers are written into |
| library | `Nvml`: one method a function |
| codes | what a return code means |
"""
