"""
What the operator declares: settings and SLO files, read strictly.

| reads | YAML files, environment, flags; JSON of the API |
| gives | `Settings`, `Slo` |
| fails | `ConfigError`: one line a problem, naming file, SLO and field |
"""
