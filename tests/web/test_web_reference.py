"""The generated pages of the reference, and the catalogue."""

import json
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from slo_exporter.web.metrics.catalogue import CATALOGUE
from slo_exporter.web.metrics.metric import Metric, Type
from slo_exporter.web.reference import documents, main

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"


@pytest.mark.parametrize("name", ["metrics.md", "openapi.json"])
def test_the_reference_is_what_the_code_says(name: str) -> None:
    """After a change: python -m slo_exporter.web.reference docs/reference."""
    assert (REFERENCE / name).read_text(encoding="utf-8") == documents()[name]


def test_the_reference_can_be_written_anywhere(tmp_path: Path) -> None:
    """The command writes both documents."""
    main(tmp_path)
    assert {path.name: path.read_text(encoding="utf-8") for path in tmp_path.iterdir()} == documents()


def test_openapi_is_served(client: TestClient) -> None:
    """Clients get the document that is committed."""
    assert client.get("/openapi.json").json() == json.loads(documents()["openapi.json"])


def test_openapi_has_no_dangling_reference() -> None:
    """Every $ref points at a schema that is there."""
    text = documents()["openapi.json"]
    schemas = json.loads(text)["components"]["schemas"]
    named = {part.split('"')[0] for part in text.split("#/components/schemas/")[1:]}
    assert named == set(schemas)


def test_every_error_in_openapi_is_a_problem() -> None:
    """A documented 4xx or 5xx names application/problem+json, but for the two decisions of a release check."""
    for path, methods in json.loads(documents()["openapi.json"])["paths"].items():
        for operation in methods.values():
            for status, response in operation["responses"].items():
                # A 204 has no content at all.
                content = set(response.get("content", {}))
                expected = {"application/problem+json"} if status >= "400" else content
                if path == "/api/v1/release-check" and status in ("412", "503"):
                    expected = {"application/json"} | (expected if status == "503" else set())
                assert content == expected, (path, status)


def test_operations_have_distinct_names() -> None:
    """Generated clients need one name for each operation."""
    paths = json.loads(documents()["openapi.json"])["paths"]
    names = [operation["operationId"] for methods in paths.values() for operation in methods.values()]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("metric", CATALOGUE, ids=lambda metric: metric.name)
def test_names_keep_the_rules_of_the_catalogue(metric: Metric) -> None:
    """No colon, a suffix that fits the type, and a help text that is a sentence."""
    assert ":" not in metric.name
    assert metric.name.endswith("_total") == (metric.type is Type.COUNTER)
    assert metric.name.endswith("_info") == (metric.type is Type.INFO)
    assert metric.help[0].isupper() or metric.help[0].isdigit()
    assert metric.help.endswith(".")


def test_writes_name_the_token_and_every_refusal() -> None:
    """In OpenAPI each route that writes has the security scheme, 401 and 403; no route that reads has."""
    document = json.loads(documents()["openapi.json"])
    writes = {
        (method, path)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
        if operation.get("security") == [{"writeToken": []}] and {"401", "403"} <= set(operation["responses"])
    }
    one = "/api/v1/slos/{service}/{slo}"
    assert writes == {("put", one), ("delete", one), ("post", f"{one}/corrections"), ("post", "/api/v1/releases")}
    # A question that is kept where somebody says who asks.
    asked = document["paths"]["/api/v1/release-check"]["post"]
    assert asked["security"] == [{"writeToken": []}, {}]
    assert {"401", "403", "413"} <= set(asked["responses"])
    assert document["components"]["securitySchemes"]["writeToken"]["scheme"] == "bearer"
