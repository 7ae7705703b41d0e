"""
GPUs, read in a child that may hang or die, and watched by a parent that does not.

| module | where | is |
|---|---|---|
| driver, abi, codes | child | the only door to the NVML library |
| child, poller, device, ... | child | reads GPUs in tiers, writes a frame a second |
| frame, order, note | between | what the two say to each other |
| watchdog, book, ... | parent | starts, judges and replaces the child; keeps the newest state and true counters |

The child imports the standard library and nothing else: it must stay small.
"""
