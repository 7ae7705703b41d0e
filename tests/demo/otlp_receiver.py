"""A receiver that keeps what it is sent."""

import queue

import grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as messages
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2_grpc as services


class Receiver(services.TraceServiceServicer):
    """Keeps the exports it is sent."""

    def __init__(self) -> None:
        self.exports: queue.Queue[messages.ExportTraceServiceRequest] = queue.Queue()

    def Export(  # noqa: N802 - the name is the protocol's
        self, request: messages.ExportTraceServiceRequest, context: grpc.ServicerContext
    ) -> messages.ExportTraceServiceResponse:
        """Take one export."""
        del context
        self.exports.put(request)
        return messages.ExportTraceServiceResponse()
