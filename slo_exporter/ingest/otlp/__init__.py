"""
OTLP traces: receive, decode to columns, recognise requests.

| reads | ExportTraceServiceRequest: gRPC, HTTP/protobuf; identity, gzip |
| gives | `Export` to a `Sink`; the client's answer only after the sink took it |
"""
