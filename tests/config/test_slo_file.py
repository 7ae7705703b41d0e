"""SLO files."""

import re
from contextlib import suppress
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slo_exporter.clock import SECOND_NS
from slo_exporter.config import slo_file
from slo_exporter.config.errors import ConfigError
from slo_exporter.sli import condition
from slo_exporter.sli.indicator import DEFAULT_RULES, Empty, Indicator, Rule, Selector
from slo_exporter.sli.records import Outcome, View
from slo_exporter.slo.definition import Slo
from slo_exporter.slo.windows import Window, duration_ns

HEAD = "apiVersion: slo-exporter/v1\nservice: chat\n"


def one(**changes: object) -> dict[str, object]:
    """A right entry, with changes; None takes a field away."""
    entry = {
        "name": "latency",
        "objective": "99%",
        "window": "30d",
        "indicator": {"requests": {}, "good": "e2e <= 80ms"},
        **changes,
    }
    return {key: value for key, value in entry.items() if value is not None}


def read(entry: object) -> Slo:
    """The SLO of an entry of service chat."""
    return slo_file.entry(entry, service="chat", labels={})


def selector_of(requests: object) -> Selector:
    """The selector of an indicator with these requests."""
    return read(one(indicator={"requests": requests, "good": "e2e <= 80ms"})).indicator.selector


def test_a_document_of_the_design_is_read(tmp_path: Path) -> None:
    """Every field lands where it belongs."""
    path = tmp_path / "chat.yaml"
    path.write_text(
        HEAD
        + """
labels: {team: llm}
slos:
  - name: latency
    objective: 99.5%
    window: 30d
    max_data_age: 1h
    indicator:
      requests: {model: llama-3-8b, view: client, http.route: [/b, /a]}
      good: e2e <= 80ms
      outcomes: {bad: [cancelled], excluded: [rate_limited]}
"""
    )

    assert slo_file.load([path]) == (
        Slo(
            service="chat",
            name="latency",
            objective=Decimal("0.995"),
            window=Window("30d", 2592000),
            indicator=Indicator(
                Selector("chat", View.CLIENT, (("http.route", ("/a", "/b")), ("model", ("llama-3-8b",)))),
                condition.parse("e2e <= 80ms"),
                {**DEFAULT_RULES, Outcome.CANCELLED: Rule.BAD, Outcome.RATE_LIMITED: Rule.EXCLUDE},
            ),
            labels={"team": "llm"},
            max_data_age_ns=3600 * SECOND_NS,
        ),
    )


def test_what_is_left_out_has_the_default_of_the_design() -> None:
    """View server, default outcomes, 15 minutes."""
    slo = read(one())

    assert slo.indicator == Indicator(Selector("chat"), condition.parse("e2e <= 80ms"))
    assert slo.max_data_age_ns == 15 * 60 * SECOND_NS


def test_the_order_of_texts_and_keys_makes_no_other_selector() -> None:
    """What means the same is equal, and is counted once."""
    assert selector_of({"model": ["a", "b", "a"], "http.route": "/x"}) == selector_of(
        {"http.route": ["/x"], "model": ["b", "a"]}
    )


def test_requests_may_name_another_service() -> None:
    """For services that are not lower-case."""
    assert selector_of({"service.name": "Chat-API"}) == Selector("chat", matches=(("service.name", ("Chat-API",)),))


@pytest.mark.parametrize(
    "key",
    [
        "service.namespace",
        "deployment.environment.name",
        "k8s.pod.labels.app.kubernetes.io/name",
        "k8s.pod.annotation.Team_Name",
        "http.request.header.x-request-id",
        "ec2.tag.aws:cloudformation:stack-name",
        "ec2.tag.Cost Center",
        "a." + "k" * 254,
    ],
)
def test_any_attribute_key_with_a_dot_may_select(key: str) -> None:
    """Labels of Kubernetes and tags of clouds become keys as they are."""
    assert selector_of({key: "x"}).attribute_keys == {key}


def test_several_files_and_documents_are_one_list(tmp_path: Path) -> None:
    """In the order of files, documents and entries; a file given twice counts once."""
    entry = "{{name: {}, objective: 99%, window: 30d, indicator: {{requests: {{}}, good: e2e <= 80ms}}}}"
    first, second = tmp_path / "a.yaml", tmp_path / "b.yaml"
    first.write_text("\n---\n".join(f"{HEAD}slos: [{entry.format(name)}]" for name in ("z", "y")))
    second.write_text(f"{HEAD.replace('chat', 'other')}slos: [{entry.format('z')}]")

    slos = slo_file.load([first, second, first])

    assert [slo.key for slo in slos] == [("chat", "z"), ("chat", "y"), ("other", "z")]


ENTRIES = {
    "no mapping": ("text", ["SLO number 1: must be a mapping"]),
    "no name": (one(name=None), ["SLO number 1: name: is required"]),
    "a name in capitals": (
        one(name="Latency"),
        [
            (
                "SLO 'Latency': name: 'Latency' is no name; write at most 63 of a-z, 0-9, '.', '_' and '-', "
                "with a letter or digit at both ends"
            )
        ],
    ),
    "an objective of everything": (
        one(objective="100%"),
        ["SLO 'latency': objective: 100% leaves no error budget; it must be less than 100%, such as 99.9%"],
    ),
    "a calendar": (
        one(window={"calendar": "month"}),
        ["SLO 'latency': window: calendar windows are not supported yet; write a duration such as 30d"],
    ),
    "a misspelt field": (
        one(windw="30d"),
        [
            (
                "SLO 'latency': windw: is an unknown field; did you mean window? "
                "fields are: name, objective, window, indicator, max_data_age, alerts"
            )
        ],
    ),
    "a short max_data_age": (
        one(max_data_age="1s"),
        ["SLO 'latency': max_data_age: '1s' is out of range; it must be at least 5s and at most 100d"],
    ),
    "no indicator": (one(indicator=""), ["SLO 'latency': indicator: must be a mapping"]),
    "no requests, no good": (
        one(indicator={}),
        [
            "SLO 'latency': indicator.requests: is required, or gpus; write {} for every request of the service",
            "SLO 'latency': indicator.good: is required",
        ],
    ),
    "a condition that cannot be read": (
        one(indicator={"requests": {}, "good": "fast"}),
        ["SLO 'latency': indicator.good: cannot read 'fast'; a clause is: field <= | < | >= | > | == | != quantity"],
    ),
    "an aggregate without a time slice": (
        one(indicator={"requests": {}, "good": "p99(e2e) <= 80ms"}),
        [
            (
                "SLO 'latency': indicator: good: p99(e2e) is about a time slice; write timeslice: 1m beside it, "
                "or judge one request, as in e2e <= 80ms"
            )
        ],
    ),
    "a request under a time slice": (
        one(indicator={"requests": {}, "timeslice": "1m", "good": "e2e <= 80ms"}),
        [
            (
                "SLO 'latency': indicator: good: e2e is about one request; with timeslice aggregate it, "
                "as in p99(e2e) <= 80ms or rate >= 100/s, or leave timeslice out"
            )
        ],
    ),
    "empty without a time slice": (
        one(indicator={"requests": {}, "good": "e2e <= 80ms", "empty": "bad"}),
        ["SLO 'latency': indicator: empty: is about time slices; write timeslice: 1m beside it, or leave it out"],
    ),
    "an unknown empty": (
        one(indicator={"requests": {}, "timeslice": "1m", "empty": "fine", "good": "count >= 1"}),
        ["SLO 'latency': indicator.empty: must be one of no_data, good, bad, not 'fine'"],
    ),
    "several wrong fields": (
        one(objective="0", window="1s"),
        [
            "SLO 'latency': objective: 0 asks for nothing; it must be more than 0",
            "SLO 'latency': window: '1s' is no window; it must be whole seconds, at least 5m and at most 100d",
        ],
    ),
}


@pytest.mark.parametrize(("entry", "expected"), ENTRIES.values(), ids=ENTRIES)
def test_a_wrong_entry_is_explained(entry: object, expected: list[str]) -> None:
    """One line a problem: SLO, field, what is wrong, what would be right."""
    with pytest.raises(ConfigError) as caught:
        read(entry)

    assert list(caught.value.problems) == expected


@pytest.mark.parametrize("width", ["10s", "15s", "25s", "1m", "5m", "90s", "60000ms", "1h"])
def test_time_slices_divide_an_hour(width: str) -> None:
    """Into whole 5 s slices, two at least."""
    indicator = read(one(indicator={"requests": {}, "timeslice": width, "good": "count >= 1"})).indicator
    assert indicator.timeslice_s == duration_ns(width) // SECOND_NS
    assert indicator.empty is None


@pytest.mark.parametrize("width", ["5s", "12s", "70s", "7m", "2h", "1d", "10500ms", "500ms"])
def test_other_widths_are_refused(width: str) -> None:
    """Windows would cut them, or verdicts have no slice."""
    with pytest.raises(ConfigError) as caught:
        read(one(indicator={"requests": {}, "timeslice": width, "good": "count >= 1"}))

    assert caught.value.problems == (
        (
            f"SLO 'latency': indicator.timeslice: '{width}' is no width of time slices; it must divide 1h, "
            "be a multiple of 5s and at least 10s, such as 10s, 1m or 5m"
        ),
    )


def test_a_time_slice_of_the_design_is_read() -> None:
    """Its width, its aggregates, and what an empty one is."""
    indicator = {"requests": {}, "timeslice": "1m", "good": "p99(e2e) <= 80ms", "empty": "bad"}

    assert read(one(indicator=indicator)).indicator == Indicator(
        Selector("chat"), condition.parse("p99(e2e) <= 80ms"), timeslice_s=60, empty=Empty.BAD
    )


REQUESTS = {
    "text": ("all", "must be a mapping; write {} for every request"),
    "an unknown field": ({"modle": "x"}, "'modle' is no field; fields are: view, model, framework; an attribute's"),
    "a number field": ({"e2e": "1s"}, "'e2e' is no field"),
    "a key with a dot at its end only": ({"model.": "x"}, "'model.' is no field"),
    "a key with a line break": ({"a.b\n": "x"}, r"'a.b\n' is no field"),
    "a key with a space at its end": ({"a.b ": "x"}, "'a.b ' is no field"),
    "a long key": (
        {"a." + "k" * 255: "x"},
        f"'a.{'k' * 55}...' is no field; fields are: view, model, framework; an attribute's key has a dot and at most",
    ),
    "an empty text": ({"model": ""}, "model: is empty"),
    "an empty list": ({"model": []}, "model: must be a text or a list of 1 to 64 texts"),
    "a mapping": ({"model": {"a": "b"}}, "model: must be one text"),
    "too many keys": ({f"a.k{n}": "x" for n in range(17)}, "has 17 keys; at most 16 are allowed"),
}


@pytest.mark.parametrize(("requests", "expected"), REQUESTS.values(), ids=REQUESTS)
def test_requests_that_cannot_be_are_refused(requests: object, expected: str) -> None:
    """The message names the key."""
    with pytest.raises(ConfigError) as caught:
        selector_of(requests)

    assert caught.value.problems[0].startswith(f"SLO 'latency': indicator.requests: {expected}")


@pytest.mark.parametrize(
    "key",
    [
        "gen_ai.input.messages",
        "gen_ai.output.messages.0.parts",
        "gen_ai.system_instructions",
        "gen_ai.tool.definitions",
        "gen_ai.tool.call.arguments",
        "gen_ai.retrieval.query.text",
        "gen_ai.memory.records",
        "gen_ai.prompt",
        "gen_ai.prompt.0.content",
        "llm.input_messages.0.message.content",
        "input.value",
        "traceloop.entity.output",
    ],
)
def test_message_content_selects_nothing(key: str) -> None:
    """What people wrote is never asked for."""
    with pytest.raises(ConfigError, match=re.escape(f"{key} holds message content, which is never read")):
        selector_of({key: "x"})


@pytest.mark.parametrize("view", ["browser", ["server", "client"]])
def test_a_view_is_one_of_three(view: object) -> None:
    """An SLO sees requests from one side."""
    with pytest.raises(ConfigError, match=r"requests\.view: must be one of server, gateway, client"):
        selector_of({"view": view})


OUTCOMES = {
    "ok": ({"bad": ["ok"]}, ".bad: ok is decided by the condition; name only other outcomes"),
    "an unknown outcome": (
        {"bad": ["late"]},
        ".bad: unknown outcome 'late'; outcomes are: error, incomplete, rate_limited, client_error, cancelled",
    ),
    "one outcome in both": (
        {"bad": ["cancelled"], "excluded": ["cancelled"]},
        ": cancelled stands twice; an outcome is bad or excluded",
    ),
    "one outcome twice": ({"bad": ["error", "error"]}, ": error stands twice; an outcome is bad or excluded"),
    "good": ({"good": ["cancelled"]}, ".good: is an unknown field; fields are: bad, excluded"),
}


@pytest.mark.parametrize(("outcomes", "expected"), OUTCOMES.values(), ids=OUTCOMES)
def test_outcomes_that_cannot_be_are_refused(outcomes: object, expected: str) -> None:
    """Each outcome but ok is bad or excluded, once."""
    with pytest.raises(ConfigError) as caught:
        read(one(indicator={"requests": {}, "good": "e2e <= 80ms", "outcomes": outcomes}))

    assert caught.value.problems == (f"SLO 'latency': indicator.outcomes{expected}",)


DOCUMENTS = {
    "nothing": ("# nothing\n", "holds no SLO document"),
    "a list": ("[a]", "apiVersion: must be slo-exporter/v1"),
    "another format": (
        "apiVersion: openslo/v1\nkind: SLO\n",
        "apiVersion: must be slo-exporter/v1, not 'openslo/v1'",
    ),
    "no entry": (f"{HEAD}slos: []", "slos: is empty"),
    "entries that are no list": (f"{HEAD}slos: x", "slos: must be a list"),
    "no slos": (HEAD, "slos: is required"),
    "an unknown field": (
        f"{HEAD}lables: {{}}\nslos: [{{}}]",
        (
            "lables: is an unknown field; did you mean labels? "
            "fields are: apiVersion, service, labels, alerts, release, slos"
        ),
    ),
}


@pytest.mark.parametrize(("text", "expected"), DOCUMENTS.values(), ids=DOCUMENTS)
def test_a_wrong_document_is_explained(tmp_path: Path, text: str, expected: str) -> None:
    """The message begins with the file."""
    path = tmp_path / "chat.yaml"
    path.write_text(text)

    with pytest.raises(ConfigError) as caught:
        slo_file.load([path])

    assert caught.value.problems[0] == f"{path}: {expected}"


def test_the_same_name_in_two_files_names_both(tmp_path: Path) -> None:
    """(service, name) is unique."""
    entry = "slos: [{name: a, objective: 99%, window: 30d, indicator: {requests: {}, good: e2e <= 80ms}}]"
    first, second = tmp_path / "1.yaml", tmp_path / "2.yaml"
    for path in (first, second):
        path.write_text(HEAD + entry)

    with pytest.raises(ConfigError) as caught:
        slo_file.load([first, second])

    assert caught.value.problems == (f"{second}: SLO 'a': service 'chat' has it already, in {first}",)


def test_everything_wrong_with_all_files_is_said_at_once(tmp_path: Path) -> None:
    """Unreadable files, wrong heads and wrong entries."""
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text("apiVersion: slo-exporter/v1\nservice: Chat\nslos:\n  - {name: a}\n  - b\n")

    _, problems = slo_file.read([tmp_path / "nope.yaml", wrong])

    assert [line.removeprefix(f"{tmp_path}/").rpartition(":")[0] for line in problems] == [
        "nope.yaml: cannot be read",
        "wrong.yaml: service",
        "wrong.yaml: SLO 'a': objective",
        "wrong.yaml: SLO 'a': window",
        "wrong.yaml: SLO 'a': indicator",
        "wrong.yaml: SLO number 2",
    ]


_FIELDS = ("name", "objective", "window", "indicator", "max_data_age")
_WORDS = st.sampled_from(
    ["99%", "30d", "1m", "latency", "e2e <= 80ms", "count >= 1", "outcome == ok", "server", "error", "ok", "", "x.y"]
)
_VALUES = st.recursive(
    _WORDS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    *_FIELDS,
                    "requests",
                    "good",
                    "outcomes",
                    "bad",
                    "excluded",
                    "view",
                    "timeslice",
                    "empty",
                    "calendar",
                    "x",
                    "a.b",
                ]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=20,
)


@given(_VALUES)
def test_any_entry_is_read_or_refused(entry: object) -> None:
    """Nothing but ConfigError: every error of pydantic's has a sentence."""
    with suppress(ConfigError):
        assert read(entry).service == "chat"
