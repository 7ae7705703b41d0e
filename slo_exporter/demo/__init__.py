"""
A simulated chat service, for `serve --demo`: a process of its own.

| module | is |
|---|---|
| traffic | the mix: what each call is like, pure arithmetic on a random source |
| spans | a call as the spans that vLLM V1 behind FastAPI sends, by the real OpenTelemetry SDK |
| service | the process: real time, signals, and an end when its parent is gone |
| slos.yaml | objectives whose budgets this traffic visibly spends |

Needs the extra ``demo``: `pip install slo-exporter[demo]`.
"""
