"""
From counts and objectives to budgets, burn rates, states and decisions.

| reads | `Entry`, `Correction`, `Slo` |
| gives | `BudgetReport`, `History`, `Decision`, `SliceChange` |
| state | `Ledger`: windows of every SLO; `SliceBook`: time slices that are not final |

Pure: numpy and the standard library, no clock, no logging, no I/O.
"""
