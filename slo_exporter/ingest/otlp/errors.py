"""
What can go wrong with an export, how it is counted and how it is told.

```
                                   result       google.rpc code      HTTP
ExportError
├── MalformedError                 malformed    INVALID_ARGUMENT     400
├── TooLargeError                  too_large    RESOURCE_EXHAUSTED   413
├── UnsupportedError               unsupported
│   ├── UnsupportedTypeError                    UNIMPLEMENTED        415
│   ├── UnsupportedEncodingError                UNIMPLEMENTED        415
│   ├── NoSuchPathError                         NOT_FOUND            404
│   └── MethodError                             UNIMPLEMENTED        405
├── LateBodyError                  timeout      DEADLINE_EXCEEDED    408
├── RefusedError                   refused      UNAVAILABLE          503
└── FailedError                    failed       INTERNAL             500
```
Clients send an export again on UNAVAILABLE with RetryInfo and on 503, and drop
it on everything else here.

Source: the OTLP specification, "Failures"
(https://opentelemetry.io/docs/specs/otlp/).
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import ClassVar

from google.rpc import code_pb2


class ExportError(Exception):
    """An export was not taken; the message is for its client."""

    result: ClassVar[str]
    """The word in our metric."""
    code: ClassVar[int]
    """google.rpc.Code."""
    http: ClassVar[int]
    """HTTP status."""
    headers: ClassVar[Mapping[str, str]] = MappingProxyType({})
    """HTTP headers that such an answer always has."""


class MalformedError(ExportError):
    """The body is no ExportTraceServiceRequest; sending it again is no use."""

    result, code, http = "malformed", code_pb2.INVALID_ARGUMENT, 400


class TooLargeError(ExportError):
    """The body, as sent or decompressed, is over a limit."""

    result, code, http = "too_large", code_pb2.RESOURCE_EXHAUSTED, 413


class UnsupportedError(ExportError):
    """The request is none that is served here."""

    result = "unsupported"


class UnsupportedTypeError(UnsupportedError):
    """The body is of a content type that is not read here."""

    code, http = code_pb2.UNIMPLEMENTED, 415
    headers = MappingProxyType({"accept": "application/x-protobuf, application/json"})


class UnsupportedEncodingError(UnsupportedError):
    """The body is compressed in a way that is not read here."""

    code, http = code_pb2.UNIMPLEMENTED, 415
    headers = MappingProxyType({"accept-encoding": "gzip"})


class NoSuchPathError(UnsupportedError):
    """Nothing is served at this path."""

    code, http = code_pb2.NOT_FOUND, 404


class MethodError(UnsupportedError):
    """The path takes another method."""

    code, http = code_pb2.UNIMPLEMENTED, 405
    headers = MappingProxyType({"allow": "POST"})


class LateBodyError(ExportError):
    """The body did not arrive in time."""

    result, code, http = "timeout", code_pb2.DEADLINE_EXCEEDED, 408
    headers = MappingProxyType({"connection": "close"})


class RefusedError(ExportError):
    """The export cannot be kept now; the client should try again later."""

    result, code, http = "refused", code_pb2.UNAVAILABLE, 503

    def __init__(self, reason: str, retry_seconds: float = 1.0) -> None:
        super().__init__(f"not kept now, try again: {reason}")
        self.reason = reason
        """A short word for the metric: overloaded, database, draining, starting."""
        self.retry_seconds = retry_seconds


class FailedError(ExportError):
    """A bug of ours; what it was stays in our log."""

    result, code, http = "failed", code_pb2.INTERNAL, 500

    def __init__(self) -> None:
        super().__init__("the receiver failed on this export; its log says more")
