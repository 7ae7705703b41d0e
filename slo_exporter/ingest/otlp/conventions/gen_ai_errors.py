"""
How a call of a model ended, by the name of its error.

``error.type`` is the name of a class in any spelling (``RateLimitError``,
``<class 'openai.RateLimitError'>``, ``google.api_core.exceptions.NotFound``), a
code of an API (``rate_limit_error``, ``RESOURCE_EXHAUSTED``) or an HTTP status;
who writes none records the exception as an event, which names the class too.
The last name decides, without case, underscores and a final "Error" or
"Exception"; a ValidationException is of AWS, and a ValidationError anybody's.

Where there is neither, the message of the status may begin with a status code,
as the clients of OpenAI and Anthropic put it: ``Error code: 429 - ...``.

Source: the error classes of openai-python, anthropic-sdk-python, google-genai
and google-api-core, and of their JavaScript and Java counterparts; the
exceptions of Amazon Bedrock's API; litellm.exceptions; google.rpc.Code.
"""

import re
from typing import Final

import numpy as np
from numpy.typing import NDArray

from slo_exporter.ingest.otlp.conventions.convention import STATUS_ERROR
from slo_exporter.ingest.otlp.conventions.numbers import counts, numbers
from slo_exporter.ingest.otlp.conventions.texts import first_known, text_of
from slo_exporter.ingest.otlp.spans import EXCEPTION_TYPE, STATUS_DESCRIPTION, SpanBatch
from slo_exporter.sli.records import Ints, Mask, Outcome
from slo_exporter.sli.texts import Texts

_ERROR_TYPE: Final = "error.type"
_CODES: Final = (_ERROR_TYPE, "http.response.status_code", "http.status_code")
READS: Final = (*_CODES, EXCEPTION_TYPE, STATUS_DESCRIPTION)
"""The keys that `outcome` reads."""

_NAMES: Final = {
    Outcome.RATE_LIMITED: (
        "ratelimit ratelimited ratelimitexceeded toomanyrequests resourceexhausted quotaexceeded servicequotaexceeded"
        " insufficientquota throttling throttled"
    ),
    Outcome.CANCELLED: (
        "cancelled canceled cancellation abort aborted apiuserabort requestaborted operationcanceled"
        " taskcanceled generatorexit keyboardinterrupt clientdisconnect"
    ),
    Outcome.CLIENT_ERROR: (
        "client badrequest invalidrequest invalidargument failedprecondition outofrange"
        " authentication invalidapikey unauthorized unauthenticated permission permissiondenied forbidden"
        " notfound modelnotfound conflict alreadyexists methodnotallowed"
        " requesttoolarge contextlengthexceeded contextwindowexceeded unprocessableentity contentfilter"
        " contentpolicyviolation validationexception accessdenied resourcenotfound"
    ),
}
_OUTCOME_OF: Final = {name: outcome for outcome, names in _NAMES.items() for name in names.split()}
_LONGEST_NAME: Final = 256
"""Characters of an error type that are looked at, from its end: it is a name, not a message."""
_WORD: Final = re.compile(r"\w+")
_MESSAGE: Final = re.compile(r"Error code: ([45]\d\d)(?!\d)")
"""How a message begins that tells a status code."""


def outcome(spans: SpanBatch) -> NDArray[np.uint8]:
    """
    What the error's name says, else what a status code says, else the span.

    A code is more exact than the names of a client's faults, of which one may
    mean any. A span says little when all went well: without a fault it is ok.
    """
    error = _errors(spans)
    code, of_error = _status_codes(spans)

    def named(kind: Outcome) -> Mask:
        return error.among({text for text in error.values if _kind(text) is kind})

    rules = (
        (named(Outcome.RATE_LIMITED), Outcome.RATE_LIMITED),
        (named(Outcome.CANCELLED), Outcome.CANCELLED),
        (code == 499, Outcome.CANCELLED),
        (code == 429, Outcome.RATE_LIMITED),
        (code >= 500, Outcome.ERROR),
        ((code >= 400) | named(Outcome.CLIENT_ERROR), Outcome.CLIENT_ERROR),
        ((spans.status == STATUS_ERROR) | (error.codes >= 0) | (of_error >= 0), Outcome.ERROR),
    )
    conditions, outcomes = zip(*rules, strict=True)
    chosen: NDArray[np.uint8] = np.select(conditions, outcomes, default=Outcome.OK).astype(np.uint8)
    return chosen


def _errors(spans: SpanBatch) -> Texts:
    """The error type; without one the exception that a span with status ERROR recorded: another may be handled."""
    recorded = text_of(spans.attributes.get(EXCEPTION_TYPE), len(spans))
    failed = np.where(spans.status == STATUS_ERROR, recorded.codes, np.int32(-1))
    return first_known([text_of(spans.attributes.get(_ERROR_TYPE), len(spans)), Texts(recorded.values, failed)])


def _kind(error_type: str) -> Outcome | None:
    words = _WORD.findall(error_type[-_LONGEST_NAME:].replace("-", ""))
    name = words[-1].lower().replace("_", "").removesuffix("error") if words else ""
    return _OUTCOME_OF.get(name, _OUTCOME_OF.get(name.removesuffix("exception")))


def _status_codes(spans: SpanBatch) -> tuple[Ints, Ints]:
    """What the error type, or else the response, says, below 100 where neither does; the error type alone."""
    columns = [counts(numbers(spans.attributes.get(key), len(spans))) for key in _CODES]
    code = np.select([column >= 0 for column in columns], columns, default=_codes_of_messages(spans))
    return np.where(code < 600, code, 0), columns[0]


def _codes_of_messages(spans: SpanBatch) -> Ints:
    """The status code that the message of a span with status ERROR begins with, else 0."""
    messages = text_of(spans.attributes.get(STATUS_DESCRIPTION), len(spans))
    found = [_MESSAGE.match(message) for message in messages.values]
    codes = np.array([*(int(match[1]) if match else 0 for match in found), 0], dtype=np.int64)
    return np.where(spans.status == STATUS_ERROR, codes[messages.codes], 0)
