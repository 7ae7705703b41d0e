"""The compiled decoder on bodies that went wrong: it never crashes or hangs, and what it accepts is right."""

import os
import signal
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import count
from typing import Final

import fuzzing
import numpy as np
import pytest
from both_decoders import LATENESS_NS, Decode
from compiled_decoder import the_decoder
from fuzzing import Tally, campaign, fuzz, the_seeds
from mutants import mutant
from span_batches import Decoded

from slo_exporter.ingest.otlp.decode import Keys, decode
from slo_exporter.ingest.otlp.errors import MalformedError, TooLargeError
from slo_exporter.ingest.otlp.spans import Attribute
from slo_exporter.sli.texts import Texts

pytestmark = pytest.mark.timeout(1200)  # the first test may wait for the compiler

MUTANTS: Final = int(os.environ.get("SLO_EXPORTER_FUZZ", "3000"))
PARTS: Final = 4
"""Of the mutants, so that several processes share them."""


@pytest.mark.parametrize("part", range(PARTS))
def test_mutants_are_declined_or_equal(part: int) -> None:
    """Each is judged as the authority does, and enough of them are accepted for that to say something."""
    numbers = range(MUTANTS)[part::PARTS]
    tally = fuzz(the_decoder().decode, numbers)
    assert tally.described == []
    assert tally.accepted + tally.declined == len(numbers)
    assert 0.2 < tally.accepted / len(numbers) < 0.8


def test_a_number_is_a_mutant() -> None:
    """The same one each time, unlike others, and none of the seeds."""
    found = [mutant(number, the_seeds()) for number in range(200)]
    assert found == [mutant(number, the_seeds()) for number in range(200)]
    assert len({*found} - {*the_seeds()}) > 150


def authority(body: bytes, keys: Keys, *, now_ns: int, lateness_ns: int = LATENESS_NS) -> Decoded | None:
    """Decode as the authority does, and decline what it refuses."""
    try:
        return decode(body, keys, now_ns=now_ns, lateness_ns=lateness_ns)
    except (MalformedError, TooLargeError):
        return None


def all_columns(decoded: Decoded, change: Callable[[Attribute], Attribute]) -> Decoded:
    """Change every attribute of spans and resources."""
    spans, refusals = decoded
    attributes, resource = (
        {key: change(column) for key, column in columns.items()} for columns in (spans.attributes, spans.resource)
    )
    return replace(spans, attributes=attributes, resource=resource), refusals


def backwards(text: Texts) -> Texts:
    """The same texts with their distinct values in another order."""
    codes = np.where(text.codes < 0, text.codes, len(text.values) - 1 - text.codes)
    return Texts(text.values[::-1], codes.astype(np.int32))


FAULTS: Final[Mapping[str, Callable[[Decoded], Decoded]]] = {
    "no lost events": lambda d: (replace(d[0], lost_events=None), d[1]),
    "no events": lambda d: (replace(d[0], events={}), d[1]),
    "a kind is kept as it is": lambda d: (replace(d[0], kind=np.where(d[0].kind == 1, np.uint8(0), d[0].kind)), d[1]),
    "times as unsigned": lambda d: (replace(d[0], start_ns=d[0].start_ns.astype(np.uint64)), d[1]),
    "texts in another order": lambda d: (replace(d[0], name=backwards(d[0].name)), d[1]),
    "absent as no key": lambda d: all_columns(d, lambda column: replace(column, number=np.nan_to_num(column.number))),
    "bools as numbers": lambda d: all_columns(
        d, lambda column: replace(column, kind=np.where(column.kind == 3, np.uint8(1), column.kind))
    ),
    "large ints without digits": lambda d: all_columns(
        d, lambda column: replace(column, text=column.words() if (column.kind != 2).any() else column.text)
    ),
    "signs of zero": lambda d: all_columns(d, lambda column: replace(column, number=column.number + 0.0)),
    "refused nobody": lambda d: (d[0], replace(d[1], by_service={})),
    "refused at the first place": lambda d: (
        d[0],
        replace(d[1], locations={reason: places[:1] for reason, places in d[1].locations.items()}),
    ),
    "refusals of numpy": lambda d: (d[0], replace(d[1], total=np.int64(d[1].total))),
}
"""What a decoder may get wrong."""


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found(fault: str) -> None:
    """A decoder that differs in one matter is told within a few thousand mutants, with a body that shows it."""

    def faulty(body: bytes, keys: Keys, *, now_ns: int, lateness_ns: int) -> Decoded | None:
        decoded = authority(body, keys, now_ns=now_ns, lateness_ns=lateness_ns)
        return None if decoded is None else FAULTS[fault](decoded)

    number = next(n for n in range(5000) if fuzzing.verdict_on(faulty, n).difference)
    said = fuzzing.described(faulty, number)
    assert f"mutant {number}, asked for ASKED[" in said
    assert "instead of" in said or "lacks" in said


def test_what_the_authority_refuses_must_be_declined() -> None:
    """To accept a malformed body is a fault, and a small one is shown."""

    def credulous(body: bytes, keys: Keys, *, now_ns: int, lateness_ns: int) -> Decoded | None:
        nothing = decode(b"", keys, now_ns=now_ns, lateness_ns=lateness_ns)
        return authority(body, keys, now_ns=now_ns, lateness_ns=lateness_ns) or nothing

    tally = fuzz(credulous, range(60))
    assert tally.different > 5
    assert "accepts what the authority does not" in tally.described[0]
    assert len(bytes.fromhex(tally.described[0].split()[-1])) < 20


def test_a_decoder_that_raises_is_told() -> None:
    """Whatever it raises; it may only decline."""

    def raising(body: bytes, keys: Keys, *, now_ns: int, lateness_ns: int) -> Decoded | None:
        raise IndexError(f"{len(body)} {len(keys.span)} {now_ns} {lateness_ns}")

    assert "raises IndexError" in fuzz(raising, range(1)).described[0]


def test_the_last_line_adds_up() -> None:
    """Of a decoder that always declines it says so."""
    never: Decode = lambda *_, **__: None  # noqa: E731 - a decoder in a line
    tally = fuzz(never, range(10))
    assert str(tally) == "10 mutants, 0 accepted and equal, 10 declined, 0 differences"
    assert tally == Tally(declined=10)


def crashing() -> Decode:
    """Make a decoder that ends its process at the third body."""
    numbers = count(1)
    return lambda *_, **__: os.kill(os.getpid(), signal.SIGSEGV) if next(numbers) == 3 else None


def hanging() -> Decode:
    """Make a decoder that never comes back from the third body."""
    numbers = count(1)
    return lambda *_, **__: signal.pause() if next(numbers) == 3 else None


@pytest.mark.parametrize(("make", "code"), [(crashing, -signal.SIGSEGV), (hanging, -signal.SIGKILL)])
def test_a_campaign_says_at_which_mutant_it_ended(
    make: Callable[[], Decode], code: int, capfd: pytest.CaptureFixture[str]
) -> None:
    """Where a decoder crashes or hangs, its process ends; that counts as a difference."""
    tally = campaign(range(10, 20), 1, make, hangs_seconds=0.5)
    told = capfd.readouterr().out
    assert (tally.declined, tally.different) == (2, 1)
    assert f"process ended with {int(code)} at mutant 12: {mutant(12, the_seeds()).hex()}" in told


def test_a_campaign_judges_every_mutant_once() -> None:
    """However many processes share them."""
    tally = campaign(range(40, 141), 2)
    assert tally.accepted + tally.declined == 101
    assert tally.accepted == fuzz(the_decoder().decode, range(40, 141)).accepted
