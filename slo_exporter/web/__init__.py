"""
The way out: metrics, a REST API and one page, over HTTP.

| folder | shows | to |
|---|---|---|
| metrics | every series of `metrics.catalogue` at /metrics | Prometheus |
| api | budgets, history and release decisions at /api/v1; takes definitions and corrections | CI, Argo, Grafana |
| page | the same at / | people |

Everything is read from a `Board` and changed through an `Editor`, which the
daemon implements. `wording` says how values read, here and on the command line.
"""
