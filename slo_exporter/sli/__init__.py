"""
From request records to good and total events.

| reads | `RequestBatch`, `Indicator` |
| gives | `Delta`: good/total/excluded per SLO and time slice |
| state | `SeenSpans`, `SeenRequests`: what was counted lately |

Pure: numpy and the standard library, no clock, no logging, no I/O.
"""
