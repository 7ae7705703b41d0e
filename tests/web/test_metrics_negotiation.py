"""Which format a scrape gets."""

import gzip

import pytest
from starlette.testclient import TestClient

from slo_exporter.web.metrics.exposition import Format
from slo_exporter.web.metrics.negotiation import choose, takes_gzip

PROMETHEUS_2_42 = (
    "application/openmetrics-text;version=1.0.0;q=0.8,application/openmetrics-text;version=0.0.1;q=0.75,"
    "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
)
PROMETHEUS_2_42_NATIVE = (
    "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited,"
    "application/openmetrics-text;version=1.0.0;q=0.8,application/openmetrics-text;version=0.0.1;q=0.75,"
    "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
)
PROMETHEUS_3_5 = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
    "application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,"
    "text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)
FIREFOX = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"


@pytest.mark.parametrize("accept", [PROMETHEUS_2_42, PROMETHEUS_2_42_NATIVE, "application/openmetrics-text"])
def test_prometheus_gets_openmetrics(client: TestClient, accept: str) -> None:
    """What 2.42 and 2.53 send, with native histograms or without."""
    response = client.get("/metrics", headers={"Accept": accept})
    assert response.headers["content-type"] == "application/openmetrics-text; version=1.0.0; charset=utf-8"
    assert response.text.endswith("# EOF\n")


def test_prometheus_3_is_told_how_names_are_escaped(client: TestClient) -> None:
    """Who asks for an escaping scheme is answered in kind."""
    response = client.get("/metrics", headers={"Accept": PROMETHEUS_3_5})
    expected = "application/openmetrics-text; version=1.0.0; charset=utf-8; escaping=allow-utf-8"
    assert response.headers["content-type"] == expected


@pytest.mark.parametrize("accept", [None, "*/*", FIREFOX, "text/plain", "application/json"])
def test_anyone_else_gets_text(client: TestClient, accept: str | None) -> None:
    """Browsers, curl, and those who ask for what there is not."""
    response = client.get("/metrics", headers={"Accept": accept} if accept else {})
    assert response.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert "# EOF" not in response.text


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        ("application/openmetrics-text;q=0.5,text/plain;q=0.5", Format.OPENMETRICS),
        ("application/openmetrics-text;q=0.4,text/plain;q=0.5", Format.TEXT),
        ("application/openmetrics-text;q=0.4,text/*;q=0.5", Format.TEXT),
        ("application/openmetrics-text;q=0.4,text/plain;q=0.3,*/*", Format.OPENMETRICS),
        ("text/plain;q=0,application/openmetrics-text;q=0.1", Format.OPENMETRICS),
        ("application/openmetrics-text;q=0", Format.TEXT),
        ("application/openmetrics-text;q=0,text/plain;q=0", Format.TEXT),
        ("application/openmetrics-text;version=0.0.1", Format.TEXT),
        ("application/openmetrics-text;version=2.0.0", Format.TEXT),
        ('Application/OpenMetrics-Text ; Version="1.0.0" ; Q=1.000', Format.OPENMETRICS),
        ("application/openmetrics-text;q=nan", Format.TEXT),
        ("application/openmetrics-text;q=2", Format.TEXT),
        ("application/openmetrics-text;q=", Format.TEXT),
        (",;,=;q=,application/openmetrics-text", Format.OPENMETRICS),
    ],
)
def test_weights_decide(accept: str, form: Format) -> None:
    """OpenMetrics needs the weight of text; the most telling range speaks for text; nonsense is left out."""
    assert choose(accept).form is form


@pytest.mark.parametrize(
    ("escaping", "suffix"),
    [("underscores", "; escaping=underscores"), ("values", "; escaping=values"), ("dots", ""), ("x\ty", "")],
)
def test_only_schemes_that_change_no_name_are_confirmed(escaping: str, suffix: str) -> None:
    """``dots`` would double our underscores; a made-up scheme never comes back."""
    choice = choose(f"application/openmetrics-text;escaping={escaping}")
    assert choice.content_type == f"application/openmetrics-text; version=1.0.0; charset=utf-8{suffix}"


def test_a_header_in_parts_is_one_header(client: TestClient) -> None:
    """RFC 9110 allows a list to come in several lines."""
    parts = [("Accept", "application/openmetrics-text;q=0.4"), ("Accept", "text/plain;q=0.5")]
    assert client.get("/metrics", headers=parts).headers["content-type"].startswith("text/plain")


def test_caches_know_what_the_answer_hangs_on(client: TestClient) -> None:
    """Both headers that were looked at are named."""
    assert client.get("/metrics").headers["vary"] == "Accept, Accept-Encoding"


def test_gzip_is_for_those_who_ask(client: TestClient) -> None:
    """The same text, a tenth of the bytes."""
    plain = client.get("/metrics", headers={"Accept-Encoding": "identity"})
    with client.stream("GET", "/metrics", headers={"Accept-Encoding": "gzip"}) as zipped:
        raw = b"".join(zipped.iter_raw())
    assert "content-encoding" not in plain.headers
    assert zipped.headers["content-encoding"] == "gzip"
    assert gzip.decompress(raw) == plain.content


@pytest.mark.parametrize(
    ("header", "zipped"),
    [("gzip", True), ("br, GZIP;q=0.5", True), ("gzip;q=0", False), ("", False), ("*", False), ("br", False)],
)
def test_gzip_may_be_excluded(header: str, zipped: bool) -> None:  # noqa: FBT001 - a column of the table
    """A weight of 0 means no."""
    assert takes_gzip(header) is zipped
