"""
Columns against an oracle that looks at one request at a time.

The oracle is plain Python, written from the text of the design.
"""

import operator
from collections import defaultdict
from collections.abc import Callable
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slo_exporter.sli.condition import parse
from slo_exporter.sli.counting import Delta, attribute_keys, count
from slo_exporter.sli.indicator import DEFAULT_RULES, Indicator, Rule, Selector
from slo_exporter.sli.records import FIELDS, MISSING, Outcome, View

COMPARE = {
    "<=": operator.le,
    "<": operator.lt,
    ">=": operator.ge,
    ">": operator.gt,
    "==": operator.eq,
    "!=": operator.ne,
}
MS = 10**6
S = 10**9

GOOD, BAD, EXCLUDED, OTHER = "good", "bad", "excluded", "not this SLO's"


class Asked:
    """An indicator as its author thinks of it, beside the `Indicator` that the code gets."""

    def __init__(self, selector: Selector, clauses: list[tuple[str, str, object]], rules: dict[Outcome, Rule]) -> None:
        self.selector, self.clauses, self.rules = selector, clauses, rules
        self.indicator = Indicator(selector, parse(" and ".join(map(_text, clauses))), rules)


def _text(clause: tuple[str, str, object]) -> str:
    field, op, bound = clause
    return f"{field} {op} {bound}" + ("ns" if field in FIELDS and not field.endswith("_tokens") else "")


def _is_asked_for(row: dict, selector: Selector) -> bool:
    if row["view"] != selector.view:
        return False
    asked = dict(selector.matches)
    if row["service"] not in asked.get("service.name", (selector.service,)):
        return False
    for key, texts in asked.items():
        if key == "service.name":
            continue
        found = row["attributes"].get(key) if "." in key else row[key]
        if found not in texts:
            return False
    wants_http = "http" in asked.get("framework", ()) or any(key.startswith(("http.", "url.")) for key in asked)
    return not row["shadowed"] or wants_http


def _holds(row: dict, clause: tuple[str, str, object]) -> bool | None:
    """True or false; None: cannot be judged."""
    field, op, bound = clause
    if field == "outcome":
        return COMPARE[op](row["outcome"].name.lower(), bound)
    tokens = row["completion_tokens"]
    if field == "inter_token" and tokens is not None and tokens <= 1:
        return True
    return None if row[field] is None else COMPARE[op](row[field], bound)


def _verdict(row: dict, asked: Asked) -> str:
    if not _is_asked_for(row, asked.selector):
        return OTHER
    on_outcome = [_holds(row, clause) for clause in asked.clauses if clause[0] == "outcome"]
    if not on_outcome or not all(on_outcome):
        rule = asked.rules[row["outcome"]]
        if rule == Rule.BAD:
            return BAD
        if rule == Rule.EXCLUDE:
            return EXCLUDED
    on_numbers = [_holds(row, clause) for clause in asked.clauses if clause[0] != "outcome"]
    if None in on_numbers:
        return EXCLUDED
    return GOOD if all(on_outcome) and all(on_numbers) else BAD


def _tally(rows: list[dict], asked: list[Asked]) -> tuple[dict[tuple[int, int], list[int]], list[int]]:
    counts: dict[tuple[int, int], list[int]] = defaultdict(lambda: [0, 0, 0])
    newest = [MISSING] * len(asked)
    for row in rows:
        for place, one in enumerate(asked):
            verdict, cell = _verdict(row, one), counts[row["end_ns"] // (5 * S) * 5, place]
            cell[0] += verdict == GOOD
            cell[1] += verdict in (GOOD, BAD)
            cell[2] += verdict == EXCLUDED
            if verdict in (GOOD, BAD):
                newest[place] = max(newest[place], row["end_ns"])
    return dict(counts), newest


def _as_tally(delta: Delta) -> tuple[dict[tuple[int, int], list[int]], list[int]]:
    cells = {
        (start, place): counts.tolist()
        for start, per_slo in zip(delta.slices.tolist(), delta.counts, strict=True)
        for place, counts in enumerate(per_slo)
    }
    return cells, delta.newest_ns.tolist()


VALUES = (None, 0, 1, 79 * MS, 80 * MS - 1, 80 * MS, 80 * MS + 1, S)
SERVICES, MODELS = ("chat", "Chat-API", "embed"), (None, "llama", "qwen")
ROUTES, TENANTS = (None, "/v1/chat", "/v1/embed"), (None, "blue", "green")


def _row(random: Random) -> dict:
    route, tenant = random.choice(ROUTES), random.choice(TENANTS)
    attributes = {"http.route": route, "tenant.id": tenant}
    return {
        "end_ns": 1_000 * S + random.choice((0, 1, 5 * S - 1, 5 * S, 5 * S + 1, 17 * S)),
        "view": random.choice((View.SERVER, View.SERVER, View.GATEWAY, View.CLIENT)),
        "outcome": random.choice((Outcome.OK, Outcome.OK, *Outcome)),
        "shadowed": random.random() < 0.2,
        "service": random.choice(SERVICES),
        "model": random.choice(MODELS),
        "framework": random.choice((None, "vllm", "http")),
        "attributes": {key: text for key, text in attributes.items() if text is not None},
        "e2e": random.choice(VALUES),
        "ttft": random.choice(VALUES),
        "inter_token": random.choice(VALUES),
        "completion_tokens": random.choice((None, 0, 1, 2, 9)),
    }


def _asked(random: Random) -> Asked:
    keys = {
        "model": MODELS[1:],
        "framework": ("vllm", "http"),
        "service.name": SERVICES,
        "http.route": ROUTES[1:],
        "tenant.id": TENANTS[1:],
    }
    chosen = random.sample(sorted(keys), random.choice((0, 0, 1, 1, 2)))
    matches = tuple((key, tuple(random.sample(keys[key], random.choice((1, 1, 2))))) for key in chosen)
    selector = Selector(random.choice(SERVICES), random.choice((View.SERVER, View.SERVER, *View)), matches)
    clauses = [_clause(random) for _ in range(random.choice((1, 1, 2, 3)))]
    rules = dict(DEFAULT_RULES)
    if random.random() < 0.3:
        rules.update({outcome: random.choice((Rule.BAD, Rule.EXCLUDE)) for outcome in random.sample(list(Outcome), 2)})
    return Asked(selector, clauses, rules)


def _clause(random: Random) -> tuple[str, str, object]:
    field = random.choice(("e2e", "ttft", "inter_token", "inter_token", "completion_tokens", "outcome", "outcome"))
    if field == "outcome":
        return field, random.choice(("==", "!=")), random.choice(["ok", *(o.name.lower() for o in Outcome)])
    bound = random.choice((0, 1, 2)) if field == "completion_tokens" else random.choice((1, 80 * MS))
    return field, random.choice(list(COMPARE)), bound


@settings(deadline=None, max_examples=60)
@given(seed=st.integers(0, 2**32))
def test_columns_count_as_requests_one_by_one(make_batch: Callable, seed: int) -> None:
    """Random requests under random indicators come to the numbers of the oracle."""
    random = Random(seed)
    rows = [_row(random) for _ in range(random.choice((0, 1, 2, 3, 30)))]
    asked = [_asked(random) for _ in range(8)]
    delta = count(make_batch(rows), [one.indicator for one in asked])
    assert _as_tally(delta) == _tally(rows, asked)
    assert (np.diff(delta.slices) > 0).all()


def _verdicts(
    make_batch: Callable, rows: list[dict], good: str, selector: Selector | None = None, **rules: Rule
) -> str:
    """One letter a row: good, bad, excluded, or - for not this SLO's."""
    indicator = Indicator(
        selector or Selector("chat"),
        parse(good),
        {**DEFAULT_RULES, **{Outcome[name]: rule for name, rule in rules.items()}},
    )
    letters = ""
    for row in rows:
        good_count, total, excluded = count(make_batch([row]), [indicator]).counts[0, 0].tolist()
        letters += {(1, 1, 0): "g", (0, 1, 0): "b", (0, 0, 1): "x", (0, 0, 0): "-"}[good_count, total, excluded]
    return letters


OUTCOMES = [{"outcome": outcome, "e2e": 80 * MS} for outcome in Outcome]
"""ok, error, incomplete, rate_limited, client_error, cancelled."""


@pytest.mark.parametrize(
    ("good", "letters"),
    [
        ("e2e <= 80ms", "gbbbxx"),
        ("e2e < 80ms", "bbbbxx"),
        ("outcome == ok", "gbbbxx"),
        ("outcome != error", "gbgggg"),
        ("outcome == cancelled", "bbbbxg"),
        ("outcome != error and outcome != cancelled", "gbgggx"),
        ("outcome != error and e2e < 80ms", "bbbbbb"),
        ("ttft <= 1s", "xbbbxx"),
        ("outcome == ok and ttft <= 1s", "xbbbxx"),
        ("outcome != error and ttft <= 1s", "xbxxxx"),
    ],
)
def test_an_outcome_decides_unless_the_condition_speaks_of_it(make_batch: Callable, good: str, letters: str) -> None:
    """What meets the clauses on outcome is judged by the condition, the rest by the rules."""
    assert _verdicts(make_batch, OUTCOMES, good) == letters


def test_outcome_rules_can_be_overridden(make_batch: Callable) -> None:
    """`outcomes` moves an outcome between bad and excluded."""
    rules = {"CANCELLED": Rule.BAD, "ERROR": Rule.EXCLUDE}
    assert _verdicts(make_batch, OUTCOMES, "e2e <= 80ms", **rules) == "gxbbxb"


@pytest.mark.parametrize(
    ("row", "letter"),
    [
        ({}, "x"),
        ({"inter_token": 5 * MS}, "g"),
        ({"inter_token": 5 * MS + 1}, "b"),
        ({"completion_tokens": 0}, "g"),
        ({"completion_tokens": 1}, "g"),
        ({"completion_tokens": 2}, "x"),
        ({"completion_tokens": 1, "inter_token": S}, "g"),
        ({"completion_tokens": 2, "inter_token": S}, "b"),
        ({"completion_tokens": 1, "outcome": Outcome.ERROR}, "b"),
    ],
)
def test_one_token_has_no_gap_to_be_slow(make_batch: Callable, row: dict, letter: str) -> None:
    """At most one output token satisfies a clause on inter_token; more must be known."""
    assert _verdicts(make_batch, [row], "inter_token <= 5ms") == letter


def test_one_token_excuses_no_other_clause(make_batch: Callable) -> None:
    """A request of one token without the other field is excluded."""
    assert _verdicts(make_batch, [{"completion_tokens": 1}], "inter_token <= 5ms and e2e <= 1s") == "x"


@pytest.mark.parametrize(
    ("matches", "letters"),
    [
        ((), "g---"),
        ((("http.route", ("/a",)),), "gg--"),
        ((("url.path", ("/a",)),), "----"),
        ((("tenant.id", ("blue",)),), "g---"),
        ((("http.route", ("/a", "/b")), ("tenant.id", ("blue",))), "g---"),
        ((("http.route", ("/b", "/c")),), "--g-"),
    ],
)
def test_a_shadowed_request_counts_for_http_selectors_alone(
    make_batch: Callable, matches: tuple[tuple[str, tuple[str, ...]], ...], letters: str
) -> None:
    """Where an engine speaks, its HTTP span is for SLOs that name an HTTP attribute."""
    rows = [
        {"attributes": {"http.route": "/a", "tenant.id": "blue"}},
        {"attributes": {"http.route": "/a"}, "shadowed": True},
        {"attributes": {"http.route": "/b"}, "shadowed": True},
        {"service": "other", "attributes": {"http.route": "/a"}},
    ]
    assert _verdicts(make_batch, rows, "outcome == ok", Selector("chat", matches=matches)) == letters


def test_a_selector_can_name_another_service(make_batch: Callable) -> None:
    """`service.name` replaces the document's service instead of adding to it."""
    rows = [{"service": "chat"}, {"service": "Chat-API"}, {"service": "chat-b"}]
    selector = Selector("chat", matches=(("service.name", ("Chat-API", "chat-b")),))
    assert _verdicts(make_batch, rows, "outcome == ok", selector) == "-gg"


@pytest.mark.parametrize("view", View)
def test_views_are_counted_apart(make_batch: Callable, view: View) -> None:
    """An SLO counts the view that it names."""
    rows = [{"view": each} for each in View]
    letters = _verdicts(make_batch, rows, "outcome == ok", Selector("chat", view))
    assert letters == "".join("g" if each is view else "-" for each in View)


def test_the_end_decides_the_slice(make_batch: Callable) -> None:
    """A request counts in the half-open slice that holds its end, whenever it began."""
    rows = [{"start_ns": 0, "end_ns": end} for end in (5 * S - 1, 5 * S, 10 * S - 1, 10 * S)]
    delta = count(make_batch(rows), [Indicator(Selector("chat"), parse("outcome == ok"))])
    assert delta.slices.tolist() == [0, 5, 10]
    assert delta.counts[:, 0, 1].tolist() == [1, 2, 1]


def test_excluded_events_are_not_the_newest(make_batch: Callable) -> None:
    """Only good and bad events make data fresh."""
    rows = [
        {"end_ns": 7, "outcome": Outcome.ERROR},
        {"end_ns": 9, "outcome": Outcome.CANCELLED},
        {"end_ns": 11, "service": "other"},
    ]
    indicators = [Indicator(Selector(service), parse("outcome == ok")) for service in ("chat", "none")]
    assert count(make_batch(rows), indicators).newest_ns.tolist() == [7, MISSING]


def test_attribute_keys_are_those_that_need_decoding() -> None:
    """Record fields need no attribute."""
    matches = (("model", ("a",)), ("framework", ("vllm",)), ("http.route", ("/",)), ("tenant.id", ("x",)))
    indicator = Indicator(Selector("chat", matches=matches), parse("outcome == ok"))
    assert attribute_keys([indicator, indicator]) == {"http.route", "tenant.id"}
