"""
From request records to good and total events.

| reads | `RequestBatch`, `Indicator` |
| gives | `Delta`: good/total/excluded per SLO and slice; `SliceSums` of time slices, and verdicts from them |
| state | `Seen`: spans and requests that were counted lately |

Pure: numpy and the standard library, no clock, no logging, no I/O.
"""
