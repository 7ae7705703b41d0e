"""
GPUs, read in a child that may hang or die, and watched by a parent that does not.

| | where | is |
|---|---|---|
| frame, order, note | between | what the two say to each other |
| child | child | its main: real GPUs, simulated ones or a recording |
| driver | child | the only door to the NVML library |
| reading | child | reads GPUs in tiers, writes a frame a second |
| simulation, recordings | child | frames that come from elsewhere |
| watch | parent | starts, judges and replaces the child |
| book | parent | keeps the newest state, true counters, and seconds for SLOs |
| survey | both | what a machine gives, for ``slo-exporter doctor`` |

The child imports the standard library and nothing else: it must stay small.
"""
