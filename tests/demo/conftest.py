"""A receiver of OTLP on loopback."""

from collections.abc import Iterator
from concurrent import futures

import grpc
import pytest
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2_grpc as services
from otlp_receiver import Receiver


@pytest.fixture
def receiver() -> Iterator[tuple[Receiver, str]]:
    """A real OTLP/gRPC server on loopback, and its endpoint."""
    taking = Receiver()
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=2))
    services.add_TraceServiceServicer_to_server(taking, server)  # type: ignore[no-untyped-call]  # generated
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield taking, f"http://127.0.0.1:{port}"
    server.stop(grace=None).wait()
