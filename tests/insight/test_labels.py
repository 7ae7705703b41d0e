"""Label sets: a bounded number, and no service takes them all."""

import numpy as np
from requests_of import batch_of

from slo_exporter.insight.labels import MOST_OF_SERVICE, MOST_SETS, OTHER, LabelSets


def add(sets: LabelSets, *pairs: tuple[str, str]) -> None:
    """Ask for the numbers of (service, model)."""
    batch = batch_of([{"service": service, "model": model} for service, model in pairs])
    sets.of(batch.service, batch.model, batch.view)


def test_one_service_leaves_room_for_others() -> None:
    """Its further models are one; another service has its own."""
    sets = LabelSets()
    add(sets, *(("loud", f"m{number:04}") for number in range(1000)), ("quiet", "m"))
    assert len(sets.numbers) == MOST_OF_SERVICE + 2
    assert {("loud", OTHER, "server"), ("quiet", "m", "server")} < sets.numbers.keys()
    assert sets.overflowed == 1000 - MOST_OF_SERVICE
    assert (sets.hides("loud"), sets.hides("quiet"), sets.knows("quiet")) == (True, False, True)


def test_past_all_sets_the_service_is_another_too() -> None:
    """Whose name is remembered."""
    sets = LabelSets()
    add(sets, *((f"s{number:04}", "m") for number in range(MOST_SETS + 1)))
    assert (OTHER, OTHER, "server") in sets.numbers
    assert (len(sets.numbers), sets.overflowed) == (MOST_SETS + 1, 1)
    last = f"s{MOST_SETS:04}"
    assert (sets.knows(last), sets.hides(last), sets.hides("s0000")) == (True, True, False)


def test_hostile_names_are_remembered_up_to_a_bound() -> None:
    """Numbers stay in the room that there is."""
    sets = LabelSets(3)
    for part in range(20):
        add(sets, *((f"s{part}-{number}", f"m{number}") for number in range(1000)))
    assert len(sets._hidden) == 10_000
    assert max(sets.numbers.values()) < sets.room


def test_a_known_set_keeps_its_number() -> None:
    """Also when there is no room any more."""
    sets = LabelSets(1)
    batch = batch_of([{"service": name} for name in ("a", "b", "a", "c")])
    assert sets.of(batch.service, batch.model, batch.view).tolist() == [0, 1, 0, 1]
    assert np.array_equal(sets.of(batch.service, batch.model, batch.view), [0, 1, 0, 1])
