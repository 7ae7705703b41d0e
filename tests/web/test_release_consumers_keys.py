"""The manifests of examples/release have no key that their consumer does not know."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from consumers import MANIFESTS

WEB = {"url", "method", "timeoutSeconds", "jsonPath", "headers", "body", "jsonBody", "insecure", "authentication"}
MEASURED = {"name", "interval", "initialDelay", "count", "successCondition", "failureCondition", "provider"}
LIMITS = {"failureLimit", "inconclusiveLimit", "consecutiveErrorLimit", "consecutiveSuccessLimit"}
STEP = {"setWeight", "pause", "analysis", "experiment", "setCanaryScale", "setHeaderRoute", "setMirrorRoute", "plugin"}
HOOK = {"name", "type", "url", "timeout", "retries", "metadata", "muteAlert", "disableTLS"}
CHECK = {"name", "interval", "thresholdRange", "templateRef", "templateVariables", "query", "threshold"}
TRIGGER = {"type", "name", "metadata", "metricType", "authenticationRef", "useCachedMetrics"}
SCALED = {
    "scaleTargetRef",
    "pollingInterval",
    "cooldownPeriod",
    "idleReplicaCount",
    "minReplicaCount",
    "maxReplicaCount",
    "initialCooldownPeriod",
    "fallback",
    "advanced",
    "triggers",
}
QUERY = {
    "refId",
    "datasource",
    "type",
    "source",
    "format",
    "parser",
    "url",
    "url_options",
    "root_selector",
    "columns",
    "filters",
}
KNOWN: dict[tuple[str, str], set[str]] = {
    ("argo-rollouts.yaml", "AnalysisTemplate.spec"): {"args", "metrics", "dryRun", "measurementRetention", "templates"},
    ("argo-rollouts.yaml", "AnalysisTemplate.spec.args[]"): {"name", "value", "valueFrom"},
    ("argo-rollouts.yaml", "AnalysisTemplate.spec.metrics[]"): MEASURED | LIMITS,
    ("argo-rollouts.yaml", "AnalysisTemplate.spec.metrics[].provider"): {"web"},
    ("argo-rollouts.yaml", "AnalysisTemplate.spec.metrics[].provider.web"): WEB,
    ("argo-rollouts.yaml", "Rollout.spec.strategy.canary.analysis"): {"templates", "args", "startingStep", "dryRun"},
    ("argo-rollouts.yaml", "Rollout.spec.strategy.canary.steps[]"): STEP,
    ("argo-rollouts.yaml", "Rollout.spec.strategy.canary.steps[].analysis"): {"templates", "args", "dryRun"},
    ("flagger.yaml", "Canary.spec.analysis"): {
        "interval",
        "iterations",
        "maxWeight",
        "metrics",
        "stepWeight",
        "threshold",
        "webhooks",
    },
    ("flagger.yaml", "Canary.spec.analysis.webhooks[]"): HOOK,
    ("flagger.yaml", "Canary.spec.analysis.metrics[]"): CHECK,
    ("flagger.yaml", "Canary.spec.analysis.metrics[].thresholdRange"): {"min", "max"},
    ("flagger.yaml", "MetricTemplate.spec"): {"provider", "query"},
    ("flagger.yaml", "MetricTemplate.spec.provider"): {"type", "address", "secretRef", "region", "insecureSkipVerify"},
    ("keda.yaml", "ScaledObject.spec"): SCALED,
    ("keda.yaml", "ScaledObject.spec.triggers[]"): TRIGGER,
    ("grafana-infinity.json", "panels[].targets[]"): QUERY,
    ("grafana-infinity.json", "panels[].targets[].columns[]"): {"selector", "text", "type", "timestampFormat"},
}
"""What may stand where, as far as these manifests go."""
METADATA = {
    "prometheus": {"serverAddress", "query", "threshold", "activationThreshold", "ignoreNullValues", "timeout"},
    "metrics-api": {"url", "format", "valueLocation", "targetValue", "activationTargetValue", "unsafeSsl"},
}
"""Of KEDA's triggers."""


def documents(name: str) -> dict[str, list[Any]]:
    """The objects of a manifest by kind; a dashboard has none."""
    text = (MANIFESTS / name).read_text()
    if name.endswith(".json"):
        return {"": [json.loads(text)]}
    objects = list(yaml.safe_load_all(text))
    return {kind: [one for one in objects if one["kind"] == kind] for kind in {one["kind"] for one in objects}}


def parts(whole: Any, path: list[str]) -> Iterator[dict[str, Any]]:
    """The objects at a path: ``a.b[].c``; where a step is missing there is none."""
    if not path:
        yield whole
        return
    found = whole.get(path[0].removesuffix("[]"))
    for one in found if path[0].endswith("[]") else [found]:
        if one is not None:
            yield from parts(one, path[1:])


@pytest.mark.parametrize(("name", "path"), KNOWN, ids=str)
def test_manifests_have_no_key_too_many(name: str, path: str) -> None:
    """An unknown key is dropped by the API server, or ignored: the line would do nothing."""
    kind, _, rest = path.partition(".") if path[0].isupper() else ("", "", path)
    found = [part for document in documents(name)[kind] for part in parts(document, rest.split("."))]

    assert found
    assert {key for part in found for key in part} <= KNOWN[name, path]


def test_triggers_of_keda_are_text() -> None:
    """Its metadata is a map of texts: a number or a boolean without quotes is refused."""
    for document in documents("keda.yaml")["ScaledObject"]:
        for trigger in document["spec"]["triggers"]:
            metadata = trigger["metadata"]
            assert set(metadata) <= METADATA[trigger["type"]]
            assert {type(value) for value in metadata.values()} == {str}


def test_a_template_of_argo_uses_no_argument_that_it_lacks() -> None:
    """An argument that nobody declares makes the run fail."""
    for template in documents("argo-rollouts.yaml")["AnalysisTemplate"]:
        declared = {one["name"] for one in template["spec"]["args"]}
        assert set(re.findall(r"\{\{args\.([\w-]+)\}\}", json.dumps(template["spec"]["metrics"]))) == declared


def test_what_manifests_name_is_there() -> None:
    """Templates that a Rollout or a Canary names stand in the same file."""
    for name, kind, pattern in [
        ("argo-rollouts.yaml", "AnalysisTemplate", r'"templateName": "([\w-]+)"'),
        ("flagger.yaml", "MetricTemplate", r'"templateRef": \{"name": "([\w-]+)"\}'),
    ]:
        all_of_them = documents(name)
        named = re.findall(pattern, json.dumps(all_of_them))
        assert set(named) == {one["metadata"]["name"] for one in all_of_them[kind]}


@pytest.mark.parametrize("path", sorted(MANIFESTS.iterdir()), ids=lambda path: path.name)
def test_manifests_say_what_they_do(path: Any) -> None:
    """In a comment at the head; a dashboard in its description."""
    text = path.read_text()

    assert json.loads(text)["description"] if path.suffix == ".json" else text.startswith("# ")
