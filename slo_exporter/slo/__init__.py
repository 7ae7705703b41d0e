"""
From counts and objectives to budgets, burn rates, states and decisions.

| reads | `Delta`, `Slo` |
| gives | `BudgetReport`, `Decision` |
| state | `Ledger`: windows of every SLO, in memory |

Pure: numpy and the standard library, no clock, no logging, no I/O.
"""
