"""
What a client is told: success, partial success, or a google.rpc.Status.

Source: the OTLP specification, "Failures" and "Partial Success"
(https://opentelemetry.io/docs/specs/otlp/).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from google.protobuf.duration_pb2 import Duration
from google.protobuf.json_format import MessageToJson
from google.protobuf.message import Message
from google.rpc.error_details_pb2 import BadRequest, RetryInfo
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceResponse,
)

from slo_exporter.clock import SECOND_NS
from slo_exporter.ingest.otlp.errors import ExportError, MalformedError, RefusedError
from slo_exporter.ingest.otlp.export import Encoding
from slo_exporter.ingest.otlp.refusals import Refusals


def _as_json(message: Message) -> bytes:
    return MessageToJson(message, indent=None).encode()


WRITERS: Final[Mapping[Encoding, Callable[[Message], bytes]]] = {
    "protobuf": lambda message: message.SerializeToString(),
    "json": _as_json,
}
"""How a message is written in each encoding."""
_NOTHING_TO_SAY: Final[Mapping[Encoding, bytes]] = {
    encoding: write(ExportTraceServiceResponse()) for encoding, write in WRITERS.items()
}


@dataclass(frozen=True, slots=True)
class Answer:
    """
    What an accepted export is answered.

    Source: ExportTraceServiceResponse in trace_service.proto.
    """

    refused: int = 0
    """Spans that were not accepted."""
    message: str = ""
    """Why, or what else is to be told; empty: ``partial_success`` is unset (C03)."""

    def written(self, encoding: Encoding) -> bytes:
        """Write it as an ExportTraceServiceResponse."""
        if not self.message:
            return _NOTHING_TO_SAY[encoding]
        partial = ExportTracePartialSuccess(rejected_spans=self.refused, error_message=self.message)
        return WRITERS[encoding](ExportTraceServiceResponse(partial_success=partial))


def success(refusals: Refusals, flags: Mapping[str, int]) -> Answer:
    """
    Say that the export was taken.

    ``partial_success`` is unset unless spans were refused (C04) or counted
    with a doubt worth telling (C05: ``rejected_spans`` 0 and a message).
    """
    told = (text for text in (refusals.message(), _doubts(flags)) if text)
    return Answer(refusals.count, "; ".join(told))


def repeated(refused: int) -> Answer:
    """
    Say again what the first answer to the same body said.

    Its spans may read otherwise by now: one that was ahead of the clock no
    longer is, and was not counted all the same.
    """
    if not refused:
        return Answer()
    return Answer(refused, f"this export came before; {refused} of its spans were refused then")


def _doubts(flags: Mapping[str, int]) -> str:
    told = ", ".join(f"{flags[flag]} {flag}" for flag in sorted(flags))
    return told and f"accepted with a doubt: {told}"


def status(error: ExportError) -> Status:
    """Say why the export was not taken."""
    answer = Status(code=error.code, message=str(error))
    for detail in _details(error):
        answer.details.add().Pack(detail)
    return answer


def retry_info(refused: RefusedError) -> RetryInfo:
    """When the client should try again."""
    seconds, nanoseconds = divmod(round(refused.retry_seconds * SECOND_NS), SECOND_NS)
    return RetryInfo(retry_delay=Duration(seconds=seconds, nanos=nanoseconds))


def _details(error: ExportError) -> tuple[Message, ...]:
    if isinstance(error, RefusedError):
        return (retry_info(error),)
    if isinstance(error, MalformedError):
        return (BadRequest(field_violations=[BadRequest.FieldViolation(field="body", description=str(error))]),)
    return ()
