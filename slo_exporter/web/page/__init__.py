"""
/: one page for people, without scripts.

| reads | `BudgetReport`, `About`, `GpuList` |
| gives | HTML |
"""
