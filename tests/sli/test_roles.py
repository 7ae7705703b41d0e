"""What services are decides which of their spans count."""

from collections.abc import Callable

import pytest

from slo_exporter.sli.admission import MOST_ROLES, Admission, Role, Roles
from slo_exporter.sli.records import Layer, View

NONE: Roles = frozenset()
SECOND = 10**9


def engine(mark: int, service: str = "worker", layer: Layer = Layer.ENGINE, **more: object) -> dict[str, object]:
    """A span of an engine."""
    return {"fingerprint": mark, "service": service, "layer": layer, **more}


def admit(admission: Admission, make_batch: Callable, *rows: dict[str, object]) -> int:
    """Commit rows in an export of their own; how many count."""
    counted = len(admission.admit([(make_batch(list(rows)), NONE)], 0).requests)
    admission.keep()
    return counted


@pytest.mark.parametrize("layer", Layer)
def test_what_stands_behind_something_else_does_not_count(make_batch: Callable, layer: Layer) -> None:
    """Engines alone: an HTTP span or a front in the same service is what it was."""
    admitted = Admission([("worker", Role.BELOW)]).admit([(make_batch([engine(1, layer=layer)]), NONE)], 0)
    is_behind = layer in (Layer.ENGINE, Layer.PREFILL)
    assert (len(admitted.requests), len(admitted.behind)) == ((0, 1) if is_behind else (1, 0))


def test_a_front_that_shows_up_hides_the_engines_of_its_own_export(make_batch: Callable) -> None:
    """And of every later one, but of no other service."""
    admission = Admission([])
    rows = make_batch([engine(1), engine(2, "alone")])
    admitted = admission.admit([(rows, frozenset({("worker", Role.BELOW)}))], 0)
    assert admitted.requests.service.take(admitted.requests.fingerprint == 2).at(0) == "alone"
    assert (len(admitted.requests), admitted.roles) == (1, {("worker", Role.BELOW)})
    admission.keep()
    assert len(admission.admit([(make_batch([engine(3)]), NONE)], 0).requests) == 0


def test_a_worker_that_prefills_counts_nothing_that_may_be_a_first_half(make_batch: Callable) -> None:
    """A request of more than one token is its own."""
    rows = make_batch([engine(1, layer=Layer.PREFILL), engine(2)])
    admitted = Admission([("worker", Role.PREFILL)]).admit([(rows, NONE)], 0)
    assert admitted.requests.fingerprint.tolist() == [2]


def half(mark: int, service: str, layer: Layer, tokens: int = 300, pair: int = 7) -> dict[str, object]:
    """Half of a request."""
    return engine(mark, service, layer, pair_key=pair, prompt_tokens=tokens)


def test_the_second_half_shows_what_the_first_one_was(make_batch: Callable) -> None:
    """Another service, same id and prompt, three times: one may be chance; from then on first halves do not count."""
    admission = Admission([])
    pairs = [
        admit(admission, make_batch, half(2 * number + place, name, layer, pair=number + 1))
        for number in range(4)
        for place, (name, layer) in enumerate((("p", Layer.PREFILL), ("d", Layer.ENGINE)), start=1)
    ]
    assert pairs == [1, 1, 1, 1, 1, 1, 0, 1]


@pytest.mark.parametrize("other", [{"tokens": 299}, {"pair": 8}], ids=["prompt", "id"])
def test_another_request_shows_nothing(make_batch: Callable, other: dict[str, int]) -> None:
    """A guard model is asked for one token too, by the same caller."""
    admission = Admission([])
    admission.admit([(make_batch([half(1, "guard", Layer.PREFILL)]), NONE)], 0)
    admission.keep()
    admitted = admission.admit([(make_batch([half(2, "chat", Layer.ENGINE, **other)]), NONE)], 0)
    assert (len(admitted.requests), admitted.roles) == (1, NONE)


def test_both_halves_in_one_service_count_once(make_batch: Callable) -> None:
    """Nothing tells its workers apart, so nothing is learnt of them."""
    admission = Admission([])
    admission.admit([(make_batch([half(1, "llm", Layer.PREFILL)]), NONE)], 0)
    admission.keep()
    admitted = admission.admit([(make_batch([half(2, "llm", Layer.ENGINE)]), NONE)], 0)
    assert (len(admitted.requests), admitted.repeated_requests, admitted.roles) == (0, 1, NONE)


def test_a_role_learnt_by_a_refused_export_is_forgotten(make_batch: Callable) -> None:
    """`undo` takes it back."""
    admission = Admission([])
    admission.admit([(make_batch([]), frozenset({("worker", Role.BELOW)}))], 0)
    admission.undo()
    assert len(admission.admit([(make_batch([engine(1)]), NONE)], 0).requests) == 1


def test_first_halves_are_remembered_in_bounded_number(make_batch: Callable) -> None:
    """The oldest is forgotten: its second half counts beside it."""
    admission = Admission([])
    many = [half(mark, "p", Layer.PREFILL, pair=mark) for mark in range(1, 10_003)]
    admission.admit([(make_batch(many), NONE)], 0)
    admission.keep()
    admitted = admission.admit([(make_batch([half(20_000, "p", Layer.ENGINE, pair=1)]), NONE)], 0)
    assert len(admitted.requests) == 1


def test_roles_are_bounded(make_batch: Callable) -> None:
    """Those beyond the limit are told, and not learnt."""
    roles = frozenset((f"s{number}", Role.ENGINE) for number in range(MOST_ROLES + 3))
    admitted = Admission([]).admit([(make_batch([]), roles)], 0)
    assert (len(admitted.roles), admitted.unlearnt_roles) == (MOST_ROLES, 3)


def test_repeats_are_told_by_service(make_batch: Callable) -> None:
    """A span that came before, and a request that did."""
    admission = Admission([])
    request = {"request_key": 5, "start_ns": 0, "end_ns": SECOND}
    rows = make_batch([engine(1, "a", **request), engine(2, "b")])
    admission.admit([(rows, NONE)], 0)
    admission.keep()
    again = make_batch([engine(3, "a", **request), engine(2, "b"), engine(4, "c")])
    assert admission.admit([(again, NONE)], 0).repeated == {"a": 1, "b": 1}


def test_nothing_is_learnt_of_a_service_without_a_name(make_batch: Callable) -> None:
    """All others without one would be hidden with it."""
    admission = Admission([])
    admission.admit([(make_batch([half(1, "unknown_service:python", Layer.PREFILL)]), NONE)], 0)
    admission.keep()
    admitted = admission.admit([(make_batch([half(2, "d", Layer.ENGINE)]), NONE)], 0)
    assert (len(admitted.requests), admitted.roles) == (1, NONE)


def test_a_first_half_that_comes_last_is_no_request(make_batch: Callable) -> None:
    """Its second half counted; and its service is known from then on."""
    admission = Admission([])
    for pair in range(1, 4):
        assert admit(admission, make_batch, half(2 * pair, "d", Layer.ENGINE, pair=pair)) == 1
        assert admit(admission, make_batch, half(2 * pair + 1, "p", Layer.PREFILL, pair=pair)) == 0
    assert admit(admission, make_batch, half(8, "p", Layer.PREFILL, pair=8)) == 0


def test_a_half_has_one_other_half(make_batch: Callable) -> None:
    """An id that its caller uses for ever counts again."""
    admission = Admission([])
    rows = [half(1, "llm", Layer.PREFILL), *(half(mark, "llm", Layer.ENGINE) for mark in range(2, 6))]
    assert [admit(admission, make_batch, row) for row in rows] == [1, 0, 1, 1, 1]


@pytest.mark.parametrize(("start_s", "counted"), [(0, 0), (2, 0), (3, 1), (100, 1)])
def test_the_other_half_follows_at_once(make_batch: Callable, start_s: int, counted: int) -> None:
    """Later it is another request."""
    admission = Admission([])
    first = half(1, "llm", Layer.PREFILL) | {"start_ns": 0, "end_ns": 0}
    second = half(2, "llm", Layer.ENGINE) | {"start_ns": start_s * SECOND, "end_ns": 200 * SECOND}
    assert [admit(admission, make_batch, row) for row in (first, second)] == [1, counted]


def test_a_pair_that_is_refused_again_and_again_is_one_pair(make_batch: Callable) -> None:
    """A retry shows nothing new."""
    admission = Admission([])
    assert admit(admission, make_batch, half(1, "p", Layer.PREFILL)) == 1
    second = make_batch([half(2, "d", Layer.ENGINE)])
    for _ in range(5):
        assert admission.admit([(second, NONE)], 0).roles == NONE
        admission.undo()


def test_a_refused_first_half_is_forgotten(make_batch: Callable) -> None:
    """Its second half counts then."""
    admission = Admission([])
    admission.admit([(make_batch([half(1, "llm", Layer.PREFILL)]), NONE)], 0)
    admission.undo()
    assert admit(admission, make_batch, half(2, "llm", Layer.ENGINE)) == 1


@pytest.mark.parametrize(("longer", "counted"), [(1, 0), (3, 1)])
def test_who_often_writes_more_than_a_token_does_not_only_prefill(
    make_batch: Callable, longer: int, counted: int
) -> None:
    """A small model that is asked before a large one: its role is not believed; a single try changes nothing."""
    admission = Admission([("small", Role.PREFILL)])
    singles = [half(mark, "small", Layer.PREFILL, pair=mark) for mark in range(1, 16)]
    assert admit(admission, make_batch, *singles) == 0
    more = [engine(20 + mark, "small", completion_tokens=40) for mark in range(longer)]
    assert admit(admission, make_batch, *more) == longer
    assert admit(admission, make_batch, half(30, "small", Layer.PREFILL, pair=30)) == counted


def test_a_prompt_of_unknown_length_is_no_evidence(make_batch: Callable) -> None:
    """Missing is not equal to missing."""
    admission = Admission([])
    first, second = half(1, "llm", Layer.PREFILL), half(2, "llm", Layer.ENGINE)
    for row in (first, second):
        del row["prompt_tokens"]
    assert [admit(admission, make_batch, row) for row in (first, second)] == [1, 1]


def test_many_halves_of_one_id_take_no_longer(make_batch: Callable) -> None:
    """Some are looked at for each; whoever reuses one id for ever holds nobody up."""
    admission = Admission([])
    assert admit(admission, make_batch, *(half(mark, "a", Layer.PREFILL) for mark in range(1, 5001))) == 5000
    assert admit(admission, make_batch, *(half(mark, "b", Layer.ENGINE) for mark in range(5001, 7001))) == 2000


def test_a_name_that_is_none_is_not_learnt(make_batch: Callable) -> None:
    """Names are kept for good."""
    roles = frozenset({("x" * 256, Role.BELOW), ("y" * 255, Role.BELOW)})
    assert Admission([]).admit([(make_batch([]), roles)], 0).roles == {("y" * 255, Role.BELOW)}


def test_memory_that_was_given_up_comes_back_with_an_undo(make_batch: Callable) -> None:
    """The names of halves with the halves."""
    admission = Admission([])
    assert admit(admission, make_batch, half(1, "llm", Layer.PREFILL)) == 1
    many = [half(mark, f"s{mark}", Layer.PREFILL, pair=mark) for mark in range(100, 12_000)]
    for _ in range(2):
        admission.admit([(make_batch(many), NONE), (make_batch([half(99, "new", Layer.PREFILL, pair=99)]), NONE)], 0)
        admission.undo()
    assert admit(admission, make_batch, half(2, "llm", Layer.ENGINE)) == 0


def test_a_proxy_hides_its_calls_and_no_engine(make_batch: Callable) -> None:
    """Each view for itself."""
    rows = make_batch([engine(1, view=View.GATEWAY), engine(2, view=View.SERVER)])
    admitted = Admission([("worker", Role.PROXY)]).admit([(rows, NONE)], 0)
    assert admitted.requests.fingerprint.tolist() == [2]


def test_http_yields_to_what_stands_in_front_too(make_batch: Callable) -> None:
    """As to an engine."""
    admitted = Admission([("worker", Role.BELOW)]).admit([(make_batch([engine(1, layer=Layer.HTTP)]), NONE)], 0)
    assert admitted.requests.shadowed.tolist() == [True]
