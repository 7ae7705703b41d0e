"""
How the programs that ask slo-exporter about a release read its answers.

Each class speaks as its consumer does, as far as the manifests of examples/release go: what it sends, which answers
it takes, and what it makes of them. None of them is lenient where the real one is not.
"""

import json
import math
import re
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

import yaml

MANIFESTS = Path(__file__).parents[1] / "examples/release"
SERVER = "http://slo-exporter.monitoring.svc:9874"
"""Where the manifests look for slo-exporter."""
PROMETHEUS = "http://prometheus.monitoring.svc:9090"
"""Where they look for Prometheus."""


def manifest(name: str, kind: str, called: str | None = None) -> Any:
    """The object of a kind in a manifest of Kubernetes."""
    documents = yaml.safe_load_all((MANIFESTS / name).read_text())
    (found,) = [
        one for one in documents if one["kind"] == kind and (called is None or one["metadata"]["name"] == called)
    ]
    return found


@dataclass(frozen=True)
class Answer:
    """What came over HTTP, whatever its status."""

    status: int
    body: bytes


def fetch(
    url: str, timeout: float, method: str = "GET", body: bytes | None = None, headers: Mapping[str, str] | None = None
) -> Answer:
    """
    Ask over HTTP.

    Raises:
        OSError: no answer.
    """
    request = urllib.request.Request(url, body, dict(headers or {}), method=method)  # noqa: S310 - loopback
    try:
        with urllib.request.urlopen(request, timeout=timeout) as answer:  # noqa: S310 - loopback
            return Answer(answer.status, answer.read())
    except urllib.error.HTTPError as error:
        with error:
            return Answer(error.code, error.read())


class Phase(StrEnum):
    """What Argo Rollouts makes of a measurement, or of all of them."""

    SUCCESSFUL = "Successful"
    FAILED = "Failed"
    INCONCLUSIVE = "Inconclusive"
    ERROR = "Error"


_COMPARISON = re.compile(r'result((?:\.\w+)*) (==|!=) (true|false|nil|"[^"]*")')
_JSON_PATH = re.compile(r"\{\$((?:\.\w+)*)\}")


def _member(value: Any, path: str) -> Any:
    """Follow ``.a.b``; KeyError where there is no such key."""
    for key in path.split(".")[1:]:
        value = value[key]
    return value


@dataclass(frozen=True)
class Argo:
    """The controller of Argo Rollouts with the web provider."""

    metric: Mapping[str, Any]
    arguments: Mapping[str, str]

    @property
    def web(self) -> Mapping[str, Any]:
        """The provider."""
        found: Mapping[str, Any] = self.metric["provider"]["web"]
        return found

    def measure(self) -> Phase:
        """Ask once: anything but 2xx with the value in it is an error."""
        headers = {one["key"]: self._fill(one["value"]) for one in self.web.get("headers", [])}
        seconds, method = self.web.get("timeoutSeconds", 10), self.web.get("method", "GET")
        try:
            answer = fetch(self._fill(self.web["url"]), seconds, method, headers=headers)
        except OSError:
            return Phase.ERROR
        if not 200 <= answer.status < 300:
            return Phase.ERROR
        try:
            return self._judge(json.loads(answer.body))
        except json.JSONDecodeError:
            return Phase.SUCCESSFUL  # at least up to version 1.8, whatever the conditions say

    def _fill(self, text: str) -> str:
        return re.sub(r"\{\{\s*args\.([\w-]+)\s*\}\}", lambda match: self.arguments[match[1]], text)

    def _judge(self, body: Any) -> Phase:
        path = _JSON_PATH.fullmatch(self.web["jsonPath"])
        assert path, "not a path that this test follows"
        try:
            value = _member(body, path[1])
            success, failure = (self._holds(name, value) for name in ("successCondition", "failureCondition"))
        except (KeyError, TypeError):
            return Phase.ERROR
        if success is None or failure is None:  # one alone is the opposite of the other
            failure = not success if failure is None else failure
            success = not failure
        if failure:
            return Phase.FAILED
        return Phase.SUCCESSFUL if success else Phase.INCONCLUSIVE

    def _holds(self, condition: str, value: Any) -> bool | None:
        if condition not in self.metric:
            return None
        match = _COMPARISON.fullmatch(self.metric[condition])
        assert match, "not an expression that this test evaluates"
        equal = _member(value, match[1]) == json.loads(match[3].replace("nil", "null"))
        return bool(equal == (match[2] == "=="))

    def run(self, stopped_after: int = 20) -> tuple[Phase, int]:
        """Measure until a limit or the count is reached; the phase of the run, and how often it asked."""
        counted = errors_in_a_row = 0
        limits = {Phase.FAILED: "failureLimit", Phase.INCONCLUSIVE: "inconclusiveLimit"}
        seen = dict.fromkeys(Phase, 0)
        for asked in range(1, stopped_after + 1):
            phase = self.measure()
            seen[phase] += 1
            if phase is Phase.ERROR:
                errors_in_a_row += 1
                if errors_in_a_row > self.metric.get("consecutiveErrorLimit", 4):
                    return phase, asked
                continue
            errors_in_a_row, counted = 0, counted + 1
            if phase in limits and seen[phase] > self.metric.get(limits[phase], 0):
                return phase, asked
            if counted == self.metric.get("count"):
                break
        return Phase.SUCCESSFUL, asked


_JSON = {"Content-Type": "application/json"}


@dataclass
class Flagger:
    """Flagger's controller."""

    canary: Mapping[str, Any]
    asked: int = 0

    def call(self, hook: Mapping[str, Any]) -> str | None:
        """Call a webhook: None if it passes, else what the event shows."""
        payload = {
            "name": self.canary["metadata"]["name"],
            "namespace": "default",
            "phase": "Progressing",
            "checksum": "5d4b8f7c9",
            **({"metadata": hook["metadata"]} if "metadata" in hook else {}),
        }
        seconds = _seconds(hook.get("timeout", "10s"))
        for _ in range(hook.get("retries", 0) + 1):
            self.asked += 1
            try:
                answer = fetch(hook["url"], seconds, "POST", json.dumps(payload).encode(), _JSON)
            except OSError as error:
                return str(error)
            if answer.status != 429 and answer.status < 500:
                return answer.body.decode() if answer.status > 202 else None
        return f"giving up after {hook.get('retries', 0) + 1} attempt(s)"

    def check(self, metric: Mapping[str, Any], template: Mapping[str, Any]) -> str | None:
        """Check a metric: None if it passes, else what the event shows."""
        provider = template["spec"]["provider"]
        assert provider["type"] == "prometheus"
        query = re.sub(
            r"\{\{\s*variables\.(\w+)\s*\}\}",
            lambda match: metric["templateVariables"][match[1]],
            re.sub(r"\s+", " ", template["spec"]["query"]),
        )
        series = list(_instant(provider["address"], query, 5))
        assert [labels for labels, _ in series] in ([], [{}]), "of several series the last one would count"
        values = [value for _, value in series]
        if not values or math.isnan(values[-1]):
            return "no values found"
        least, most = (metric["thresholdRange"].get(bound) for bound in ("min", "max"))
        too_low, too_high = least is not None and values[-1] < least, most is not None and values[-1] > most
        return f"{values[-1]} is out of range" if too_low or too_high else None


def _seconds(duration: str) -> float:
    match = re.fullmatch(r"(\d+)(s|m)", duration)
    assert match, duration
    return float(match[1]) * {"s": 1, "m": 60}[match[2]]


def _instant(address: str, query: str, timeout: float) -> Iterator[tuple[Any, float]]:
    """The series of an instant query with their values."""
    answer = fetch(f"{address}/api/v1/query?{urllib.parse.urlencode({'query': query})}", timeout)
    assert answer.status == 200, answer.body
    for series in json.loads(answer.body)["data"]["result"]:
        yield series["metric"], float(series["value"][1])


class KedaError(Exception):
    """A trigger has no number: the HPA gets none, and does not scale in."""


_KEDA_TIMEOUT_S = 3.0
"""Its default for all HTTP."""


def keda(trigger: Mapping[str, Any]) -> float:
    """
    The number that a trigger gives the HPA.

    Raises:
        KedaError: it has none.
    """
    return {"prometheus": _keda_prometheus, "metrics-api": _keda_metrics_api}[trigger["type"]](trigger["metadata"])


def _keda_prometheus(metadata: Mapping[str, str]) -> float:
    values = [value for _, value in _instant(metadata["serverAddress"], metadata["query"], _KEDA_TIMEOUT_S)]
    if len(values) > 1:
        raise KedaError("returned multiple elements")
    if values and math.isfinite(values[0]):
        return values[0]
    if metadata.get("ignoreNullValues", "true") == "true":
        return 0.0
    raise KedaError("target may be lost")


def _keda_metrics_api(metadata: Mapping[str, str]) -> float:
    answer = fetch(metadata["url"], _KEDA_TIMEOUT_S)
    if answer.status != 200:
        raise KedaError(f"api returned {answer.status}")
    value = json.loads(answer.body)
    for key in metadata["valueLocation"].split("."):
        value = value.get(key) if isinstance(value, dict) else None
    quantity = isinstance(value, str) and re.fullmatch(r"[+-]?\d+(?:\.\d+)?(?:[num]|[kMGTPE]i?)?", value)
    if quantity or (isinstance(value, int | float) and not isinstance(value, bool)):
        return float(value)
    raise KedaError(f"must point to value of type number or a string representing a Quantity got: {value!r}")


@dataclass(frozen=True)
class Infinity:
    """Grafana's Infinity data source with its backend parser, at the URL of its configuration."""

    url: str
    variables: Mapping[str, str] = field(default_factory=dict)

    def rows(self, target: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The table that a query gives."""
        assert (target["type"], target["source"], target["parser"]) == ("json", "url", "backend")
        options = target["url_options"]
        query = urllib.parse.urlencode([(one["key"], self._fill(one["value"])) for one in options["params"]])
        answer = fetch(f"{self.url}{self._fill(target['url'])}{'?' * bool(query)}{query}", 10, options["method"])
        assert 200 <= answer.status < 300, answer.body
        found = json.loads(answer.body)
        for key in filter(None, target["root_selector"].split(".")):
            found = found[key]
        objects = found if isinstance(found, list) else [found]
        return [{one["text"]: (row[one["selector"]], one["type"]) for one in target["columns"]} for row in objects]

    def _fill(self, text: str) -> str:
        filled = re.sub(r"\$\{([^}]+)\}|\$(\w+)", lambda match: self.variables[match[1] or match[2]], text)
        return urllib.parse.quote(filled, safe="/:.") if filled.startswith("/") else filled
