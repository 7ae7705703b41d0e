"""
The ways in: what services and GPUs say about themselves.

| folder | reads | gives |
|---|---|---|
| otlp | OpenTelemetry spans over gRPC and HTTP | `Export` with a `RequestBatch` |
| nvml | GPUs, through a child process, or a simulation or a recording of them | newest values, counters, a `GpuBatch` |
| host | CPU, memory and pressure of the machine, our cgroup, processes that hold a GPU | values by metric |
"""
