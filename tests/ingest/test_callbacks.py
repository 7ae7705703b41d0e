"""Calls from other threads, made on the loops they belong to."""

import asyncio
from collections.abc import Callable

import pytest

from slo_exporter.ingest.otlp.callbacks import call_back


class CountingLoop(asyncio.SelectorEventLoop):
    """Knows how often another thread woke it."""

    woken = 0

    def call_soon_threadsafe(self, callback: Callable[..., object], *args: object, **named: object) -> asyncio.Handle:
        """Count, and do it."""
        self.woken += 1
        return super().call_soon_threadsafe(callback, *args, **named)  # type: ignore[arg-type]  # passed as it came


@pytest.fixture
def loops() -> tuple[CountingLoop, CountingLoop]:
    """Two loops; tests close them."""
    return CountingLoop(), CountingLoop()


def run_once(loop: asyncio.AbstractEventLoop) -> None:
    """Let a loop do what it has been given."""
    loop.call_soon(loop.stop)
    loop.run_forever()
    loop.close()


def test_each_loop_is_woken_once_and_keeps_the_order(loops: tuple[CountingLoop, CountingLoop]) -> None:
    """Waking is a syscall and a switch of threads: it is done for a group."""
    one, other = loops
    made: list[tuple[str, int]] = []
    calls = [(loop, name, number) for number in range(3) for loop, name in ((one, "one"), (other, "other"))]
    call_back((loop, lambda name=name, number=number: made.append((name, number))) for loop, name, number in calls)
    assert (one.woken, other.woken) == (1, 1)
    assert made == []
    run_once(one)
    run_once(other)
    assert made == [("one", 0), ("one", 1), ("one", 2), ("other", 0), ("other", 1), ("other", 2)]


def test_a_loop_that_is_gone_keeps_no_other_from_its_calls(loops: tuple[CountingLoop, CountingLoop]) -> None:
    """Its clients are gone too."""
    gone, other = loops
    gone.close()
    made: list[int] = []
    call_back([(gone, lambda: made.append(1)), (other, lambda: made.append(2))])
    run_once(other)
    assert made == [2]


def test_a_call_with_a_bug_keeps_no_other_from_being_made(loops: tuple[CountingLoop, CountingLoop]) -> None:
    """The loop is told."""
    loop, other = loops
    other.close()
    made: list[int] = []
    told: list[object] = []
    loop.set_exception_handler(lambda _, context: told.append(type(context["exception"])))
    call_back([(loop, lambda: {}["missing"]), (loop, lambda: made.append(1))])
    run_once(loop)
    assert made == [1]
    assert told == [KeyError]


def test_no_calls_wake_nobody(loops: tuple[CountingLoop, CountingLoop]) -> None:
    """An empty group is no reason to wake anybody."""
    call_back(())
    assert [loop.woken for loop in loops] == [0, 0]
    for loop in loops:
        loop.close()
