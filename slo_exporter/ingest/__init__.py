"""
The ways in: what services and GPUs say about themselves.

| folder | reads | gives |
|---|---|---|
| otlp | OpenTelemetry spans over gRPC and HTTP | `Export` with a `RequestBatch` |
"""
