"""What is defined while the server runs counts at once."""

import urllib.request

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from otlp_load import SPANS, numbered_export
from server_process import PATIENCE_S, Server


def with_tenant(number: int, tenant: str) -> bytes:
    """A numbered export whose spans name a tenant: an attribute that no convention reads."""
    request = ExportTraceServiceRequest.FromString(numbered_export(number))
    for span in request.resource_spans[0].scope_spans[0].spans:
        span.attributes.add(key="app.tenant").value.string_value = tenant
    return request.SerializeToString()


def send(server: Server, body: bytes) -> None:
    """Send an export over HTTP; it is acknowledged."""
    request = urllib.request.Request(
        f"http://127.0.0.1:{server.http}/v1/traces", data=body, headers={"Content-Type": "application/x-protobuf"}
    )
    with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:  # noqa: S310 - loopback
        assert answer.status == 200


def test_an_attribute_that_nobody_asked_for_counts_in_the_very_next_export(either: Server) -> None:
    """The SLO is made, and the export after its answer is read with what its selector names."""
    either.start()
    send(either, with_tenant(1, "acme"))
    indicator = {"requests": {"app.tenant": "acme"}, "good": "e2e <= 80ms"}

    either.write("PUT", "/api/v1/slos/chat/acme", {"objective": "99%", "window": "7d", "indicator": indicator})
    send(either, with_tenant(2, "acme"))
    send(either, with_tenant(3, "other"))

    assert either.events("acme")["total"] == SPANS
    assert either.events()["total"] == 3 * SPANS
