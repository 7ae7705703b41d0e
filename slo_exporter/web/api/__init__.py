"""
/api/v1: budgets and release decisions as JSON, errors as problem+json.

| reads | `Board`, `Clock` |
| gives | a FastAPI application that also serves /metrics, / and the probes |
"""
