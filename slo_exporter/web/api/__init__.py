"""
/api/v1: budgets, their history, release decisions and where the time goes as JSON, errors as problem+json.

| reads | `Board`, `Clock` |
| writes, for who has a token | definitions and corrections, through an `Editor` |
| gives | a FastAPI application that also serves /metrics, / and the probes |
"""
