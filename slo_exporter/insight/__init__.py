"""
From request records to where the time goes.

| reads | `RequestBatch`, `StageTimes` |
| gives | `Breakdown`: shares, sums and quantiles of stages |
| state | `StageBook`: distributions of the last day, `LabelSets` |

Pure: numpy and the standard library, no clock, no logging, no I/O.
"""
