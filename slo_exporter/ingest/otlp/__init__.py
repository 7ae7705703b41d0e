"""
OTLP traces: receive, decode to columns, recognise requests.

| reads | ExportTraceServiceRequest: gRPC, HTTP with protobuf or JSON; identity, gzip |
| gives | `Export` to a `Sink`; the client's answer only after the sink took it |
| explains | what became of each span of a file, and why: `explain` |
"""
