"""
/: one page for people, without scripts.

| reads | `BudgetReport`, `About` |
| gives | HTML |
"""
