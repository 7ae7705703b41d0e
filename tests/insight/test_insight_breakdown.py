"""Where the time goes."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from requests_of import EXAMPLE, asked, batch_of, book_of, parts_of

from slo_exporter.insight.breakdown import MOST_GROUPS
from slo_exporter.insight.figures import Breakdown, Dimension, Figures, Flag, Stage
from slo_exporter.insight.labels import LabelSets
from slo_exporter.insight.observations import TOKEN_BUCKETS, of_requests
from slo_exporter.sli.records import View


def stages(figures: Figures) -> dict[str, Stage]:
    """Stages and what they consist of, by name."""
    return {each.name: each for stage in figures.stages for each in (stage, *stage.inner)}


def seconds(found: Breakdown) -> dict[str, float]:
    """Sums by stage."""
    return {name: round(stage.spread.seconds, 9) for name, stage in stages(found.figures).items()}


def test_the_usual_example_comes_out_exactly() -> None:
    """120 ms = queue 15 + preprocess 5 + inference 90 + postprocess 10: inference takes 75 %."""
    figures = asked(book_of([EXAMPLE])).figures

    assert [(s.name, s.share, s.spread.seconds) for s in figures.stages] == [
        ("inference", 0.75, 0.09),
        ("queue", 0.125, 0.015),
        ("postprocess", 10 / 120, 0.01),
        ("preprocess", 5 / 120, 0.005),
        ("unaccounted", 0.0, 0.0),
    ]
    assert (figures.e2e.seconds, figures.e2e.mean, figures.requests, figures.flags) == (0.12, 0.12, 1, ())


def test_what_no_stage_explains_is_unaccounted() -> None:
    """Explicit, with its own share and quantiles."""
    (*_, last) = asked(book_of([{"e2e": 100, "queue": 60}])).figures.stages
    assert (last.name, last.share, last.spread.seconds) == ("unaccounted", 0.4, 0.04)
    assert last.spread.quantiles[0] is not None
    assert last.spread.quantiles[0].seconds == pytest.approx(0.04, rel=0.0055)


def test_prefill_and_decode_stand_under_inference() -> None:
    """With shares of the whole; their sum is inference where the record has none."""
    found = stages(asked(book_of([{"e2e": 200, "prefill": 50, "decode": 100}])).figures)
    assert [(s.name, s.share) for s in found["inference"].inner] == [("decode", 0.5), ("prefill", 0.25)]
    assert found["inference"].share == 0.75


def test_shares_come_from_sums() -> None:
    """A long request weighs more than a short one; the mean of shares would be another number."""
    found = stages(asked(book_of([{"e2e": 10, "queue": 9}, {"e2e": 990, "queue": 1}])).figures)
    assert found["queue"].share == 0.01


def test_stages_longer_than_their_request_are_told() -> None:
    """Clamped at 0, flagged and counted, never repaired."""
    figures = asked(book_of([{"e2e": 100, "queue": 60, "inference": 60}])).figures
    assert (figures.flags, figures.over_accounted) == ((Flag.OVER_ACCOUNTED,), 1)
    assert stages(figures)["unaccounted"].spread.seconds == 0
    assert stages(figures)["unaccounted"].spread.count == 0


@pytest.mark.parametrize(("e2e", "queue", "over"), [(10, 11, 0), (10, 11.1, 1), (1000, 1010, 0), (1000, 1010.1, 1)])
def test_rounding_of_clients_is_no_violation(e2e: float, queue: float, over: int) -> None:
    """1 ms or 1 %, whichever is more."""
    assert asked(book_of([{"e2e": e2e, "queue": queue}])).figures.over_accounted == over


def test_first_and_further_tokens_stand_beside() -> None:
    """They overlap the stages, so they have no share."""
    figures = asked(book_of([EXAMPLE | {"ttft": 50, "inter_token": 2}])).figures
    assert figures.ttft is not None
    assert figures.inter_token is not None
    assert (figures.ttft.mean, figures.inter_token.mean) == (0.05, 0.002)
    assert "ttft" not in stages(figures)


def test_what_nobody_knows_is_absent() -> None:
    """No stage of 0 s, no time to the first token of 0 s."""
    figures = asked(book_of([{"e2e": 100}])).figures
    assert (figures.ttft, figures.inter_token) == (None, None)
    assert [stage.name for stage in figures.stages] == ["unaccounted"]


def test_without_requests_there_are_zeros_and_nothing() -> None:
    """Undefined is None, never NaN."""
    figures = asked(book_of([EXAMPLE]), service="other").figures
    assert (figures.requests, figures.stages, figures.e2e.mean) == (0, (), None)
    assert set(figures.e2e.quantiles) == {None}


def test_requests_of_no_time_have_no_share() -> None:
    """A division by zero is no answer."""
    assert [stage.share for stage in asked(book_of([{"e2e": 0}])).figures.stages] == [None]


def test_shadows_and_requests_without_a_duration_are_left_out() -> None:
    """As in the histogram of durations."""
    assert of_requests(batch_of([EXAMPLE | {"shadowed": True}, {"queue": 5}]), LabelSets()) is None


def test_a_view_is_chosen_when_none_is_asked_for() -> None:
    """Server, else the first of gateway and client that has something."""
    gateway, client = {"e2e": 200, "view": View.GATEWAY}, {"e2e": 300, "view": View.CLIENT}
    assert asked(book_of([client, gateway, EXAMPLE])).view is View.SERVER
    assert asked(book_of([client, gateway])).view is View.GATEWAY
    assert asked(book_of([client])).view is View.CLIENT
    assert asked(book_of([client]), view=View.SERVER).figures.requests == 0


def test_groups_by_view_show_every_view() -> None:
    """But for one that was asked for."""
    book = book_of([EXAMPLE, {"e2e": 200, "view": View.CLIENT}])
    by = (Dimension.VIEW,)
    assert [g.labels[Dimension.VIEW] for g in asked(book, by=by).groups] == ["server", "client"]
    assert [g.labels[Dimension.VIEW] for g in asked(book, by=by, view=View.CLIENT).groups] == ["client"]


@pytest.mark.parametrize(
    ("tokens", "bucket"),
    [(0, "<=128"), (128, "<=128"), (129, "<=512"), (1024, "<=1k"), (1025, "<=2k"), (32768, "<=32k"), (32769, ">32k")],
)
def test_token_buckets_hold_their_upper_bound(tokens: int, bucket: str) -> None:
    """They are powers of two."""
    (group,) = asked(book_of([EXAMPLE | {"prompt_tokens": tokens}]), by=(Dimension.PROMPT_TOKENS,)).groups
    assert group.labels == {Dimension.PROMPT_TOKENS: bucket}


def test_requests_without_tokens_or_model_are_a_group() -> None:
    """Unknown is said."""
    by = (Dimension.MODEL, Dimension.COMPLETION_TOKENS)
    (group,) = asked(book_of([EXAMPLE | {"model": None}]), by=by).groups
    assert group.labels == {Dimension.MODEL: "unknown", Dimension.COMPLETION_TOKENS: "unknown"}


def test_groups_stand_by_their_requests_and_are_bounded() -> None:
    """The most requests first; then the answer says that there are more."""
    records = [EXAMPLE | {"model": f"m{n}"} for n in range(MOST_GROUPS + 1)]
    found = asked(book_of(records, [EXAMPLE | {"model": "m7"}]), by=(Dimension.MODEL,))
    assert (found.groups[0].labels, found.groups[0].figures.requests) == ({Dimension.MODEL: "m7"}, 2)
    assert (len(found.groups), found.is_truncated) == (MOST_GROUPS, True)


def test_one_model_can_be_asked_for() -> None:
    """Others are left out of the whole answer."""
    book = book_of([EXAMPLE, {"e2e": 900, "model": "n"}, {"e2e": 900, "model": "n"}])
    assert asked(book, model="n").figures.e2e.seconds == 1.8
    assert asked(book, model="z").figures.requests == 0


def test_stages_apart_stand_for_those_of_the_requests() -> None:
    """At least as many: they are more specific. Inference is their sum, without quantiles of its own."""
    parts = parts_of([("queue", 20), ("prefill", 30), ("decode", 40)])
    found = asked(book_of([{"e2e": 100, "queue": 5, "inference": 95}], parts=parts))

    assert seconds(found) == {
        "inference": 0.07,
        "decode": 0.04,
        "prefill": 0.03,
        "queue": 0.02,
        "unaccounted": 0.01,
    }
    assert found.figures.flags == (Flag.STAGES_APART,)
    assert set(stages(found.figures)["inference"].spread.quantiles) == {None}
    assert set(stages(found.figures)["unaccounted"].spread.quantiles) == {None}


def test_too_few_stages_apart_change_nothing() -> None:
    """Of two requests one part tells half."""
    found = asked(book_of([EXAMPLE, EXAMPLE], parts=parts_of([("queue", 100)])))
    assert (seconds(found)["queue"], found.figures.flags) == (0.03, ())


def test_stages_apart_are_added_to_those_of_other_requests() -> None:
    """Of 20 requests of one export ten have their slices with them, and ten have them in another."""
    slices = {"queue": 40, "prefill": 20, "decode": 40}
    own = [{"e2e": 100, **slices}] * 10
    found = asked(book_of([*own, *[{"e2e": 100}] * 10], parts=parts_of([*slices.items()] * 10)))

    shares = {name: stage.share for name, stage in stages(found.figures).items()}
    assert shares == {"inference": 0.6, "queue": 0.4, "decode": 0.4, "prefill": 0.2, "unaccounted": 0.0}
    assert stages(found.figures)["queue"].spread.count == stages(found.figures)["inference"].spread.count == 20
    assert stages(found.figures)["queue"].spread.quantiles[0] is not None
    assert found.figures.flags == (Flag.STAGES_APART,)


@pytest.mark.parametrize(("apart", "seconds_of_queue"), [(100, 2.0), (102, 2.02), (103, 1.03)])
def test_a_hundredth_more_stages_than_requests_are_one_a_request(apart: int, seconds_of_queue: float) -> None:
    """Beyond that they tell the same twice: those that came apart stand."""
    records = [{"e2e": 100, "queue": 10}] * 100 + [{"e2e": 100}] * 100
    found = asked(book_of(records, parts=parts_of([("queue", 10)] * apart)))
    assert seconds(found)["queue"] == seconds_of_queue


def test_inference_takes_in_what_other_requests_tell_of_it() -> None:
    """One request names the whole, the other its prefill and decode."""
    parts = parts_of([("prefill", 10), ("decode", 30)])
    found = asked(book_of([{"e2e": 100, "inference": 80}, {"e2e": 100}], parts=parts))
    assert seconds(found) == {"inference": 0.12, "decode": 0.03, "prefill": 0.01, "unaccounted": 0.08}


def test_half_of_inference_does_not_replace_it() -> None:
    """Prefill alone is no better than what requests say of the whole."""
    found = asked(book_of([EXAMPLE], parts=parts_of([("prefill", 20)])))
    assert (seconds(found)["inference"], seconds(found)["prefill"]) == (0.09, 0.02)


def test_stages_apart_are_in_no_group_that_they_cannot_know() -> None:
    """They know a view, but neither model nor tokens."""
    book = book_of([{"e2e": 100}], parts=parts_of([("decode", 40)]))
    (by_view,) = asked(book, by=(Dimension.VIEW,)).groups
    (by_model,) = asked(book, by=(Dimension.MODEL,)).groups
    assert "decode" in stages(by_view.figures)
    assert "decode" not in stages(by_model.figures)
    assert "decode" not in stages(asked(book, model="m").figures)


def test_what_is_no_stage_is_ignored() -> None:
    """A part that says ttft is in no sum."""
    assert asked(book_of([{"e2e": 100}], parts=parts_of([("ttft", 40)]))).figures.ttft is None


durations = st.one_of(st.none(), st.integers(0, 200))
records = st.fixed_dictionaries(
    {
        "model": st.sampled_from(["m", "n", None]),
        "e2e": st.integers(1, 2000),
        "queue": durations,
        "preprocess": durations,
        "prefill": durations,
        "decode": durations,
        "postprocess": durations,
        "data_wait": durations,
        "prompt_tokens": st.one_of(st.none(), st.integers(0, 40_000)),
        "completion_tokens": st.one_of(st.none(), st.integers(0, 40_000)),
    }
)
batches = st.lists(st.lists(records, min_size=1, max_size=8), min_size=1, max_size=4)


@given(batches)
def test_shares_add_up_to_one(several: list[list[dict[str, Any]]]) -> None:
    """When nothing is over-accounted."""
    figures = asked(book_of(*several)).figures
    total = sum(stage.share or 0 for stage in figures.stages)
    if Flag.OVER_ACCOUNTED in figures.flags:
        assert total > 1
    else:
        assert total == pytest.approx(1)


@given(batches, st.lists(st.sampled_from(Dimension), min_size=1, unique=True))
def test_groups_add_up_to_the_whole(several: list[list[dict[str, Any]]], by: list[Dimension]) -> None:
    """Each request is in one group."""
    found = asked(book_of(*several), by=tuple(by))
    whole: dict[str, float] = {}
    for group in found.groups:
        for name, stage in stages(group.figures).items():
            whole[name] = whole.get(name, 0) + stage.spread.seconds
    assert sum(group.figures.requests for group in found.groups) == found.figures.requests
    for name, stage in stages(found.figures).items():
        if name != "unaccounted":  # clamped in each group
            assert whole[name] == pytest.approx(stage.spread.seconds)


@given(batches)
def test_columns_agree_with_a_loop(several: list[list[dict[str, Any]]]) -> None:
    """Counts and sums are what one request at a time gives."""
    every = [record for batch in several for record in batch]
    found = stages(asked(book_of(*several)).figures)
    for name in ("queue", "preprocess", "prefill", "decode", "postprocess", "data_wait"):
        known = [record[name] for record in every if record[name] is not None]
        spread = found[name].spread if name in found else None
        assert (spread.count if spread else 0) == len(known)
        assert (spread.seconds if spread else 0) == pytest.approx(sum(known) / 1000)


def test_every_token_bucket_has_a_name() -> None:
    """Eight edges, what is beyond, and unknown."""
    assert len(set(TOKEN_BUCKETS)) == 10
