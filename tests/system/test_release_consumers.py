"""The manifests of examples/release do what their comments say: a real server answers each as its consumer asks."""

import copy
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from consumers import MANIFESTS, PROMETHEUS, SERVER, Argo, Flagger, Infinity, KedaError, Phase, keda, manifest
from prometheus_process import Prometheus
from server_process import TOKEN as SPACED_TOKEN
from server_process import Server, free_port

SERVICES = {"chat": "allow", "search": "deny", "embed": "undecided"}
"""And what a release check says of each: half of the budget is left, it is overspent, nothing was counted."""
SLOS = """\
---
apiVersion: slo-exporter/v1
service: {service}
slos:
  - name: latency
    objective: 99%
    window: 30d
    indicator: {{requests: {{}}, good: e2e <= 80ms}}
"""
REQUESTS = {"chat": (199, 1), "search": (0, 50)}
"""How many are fast, how many slow."""


TOKEN = "a-token-of-one-word"  # noqa: S105 - of the tests


def spans(service: str, fast: int, slow: int) -> bytes:
    """An export of requests to vLLM that waited for 5 ms each; no other one is equal."""
    end = time.time_ns()
    requests = [
        {
            "traceId": f"{end + number:032x}",
            "spanId": f"{end + number:016x}",
            "name": "llm_request",
            "kind": 2,
            "startTimeUnixNano": str(end - (20 if number < fast else 200) * 1_000_000),
            "endTimeUnixNano": str(end),
            "attributes": [
                {"key": "gen_ai.request.id", "value": {"stringValue": f"{end}-{number}"}},
                {"key": "gen_ai.latency.e2e", "value": {"doubleValue": 0.02 if number < fast else 0.2}},
                {"key": "gen_ai.latency.time_in_queue", "value": {"doubleValue": 0.005}},
            ],
        }
        for number in range(fast + slow)
    ]
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": service}}]}
    scopes = [{"scope": {"name": "vllm.tracing.otel"}, "spans": requests}]
    return json.dumps({"resourceSpans": [{"resource": resource, "scopeSpans": scopes}]}).encode()


def send(server: Server, service: str) -> None:
    """Send the requests of a service; they are counted when this returns."""
    request = urllib.request.Request(f"http://127.0.0.1:{server.http}/v1/traces", spans(service, *REQUESTS[service]))
    request.add_header("Content-Type", "application/json")
    with urllib.request.urlopen(request, timeout=20) as answer:  # noqa: S310 - loopback
        assert json.loads(answer.read()) == {}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that allows, denies and cannot decide."""
    one = Server(tmp_path_factory.mktemp("server"))
    one.slos.write_text("".join(SLOS.format(service=service) for service in SERVICES))
    digests = [hashlib.sha256(token.encode()).hexdigest() for token in (SPACED_TOKEN, TOKEN)]
    one.config.write_text(one.config.read_text().replace(*digests))
    one.start()
    one.becomes_ready()
    for service in REQUESTS:
        send(one, service)
    yield one
    one.kill()


@pytest.fixture(scope="module", autouse=True)
def scraper(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """A Prometheus, if there is one: it begins with the first test, since it takes 5 s to look at its targets."""
    program = shutil.which("prometheus")
    one = Prometheus(Path(program or "prometheus"), tmp_path_factory.mktemp("prometheus"), server.api)
    if program:
        one.start()
    yield one
    one.stop()


@pytest.fixture(scope="module")
def url(server: Server) -> str:
    """Its address."""
    return f"http://127.0.0.1:{server.api}"


@pytest.fixture(scope="module")
def nobody() -> str:
    """An address where nobody listens."""
    return f"http://127.0.0.1:{free_port()}"


# --- Argo Rollouts ---


def argo(template: str, service: str, url: str) -> Argo:
    """The controller with the arguments of the Rollout, but for the service and the address."""
    spec = manifest("argo-rollouts.yaml", "AnalysisTemplate", template)["spec"]
    (metric,) = spec["metrics"]
    arguments = {one["name"]: one.get("value") for one in spec["args"]}
    assert arguments == {"service": None, "slo-exporter": SERVER}
    return Argo(metric, {"service": service, "slo-exporter": url})


@pytest.mark.parametrize(
    ("service", "gate", "watch"),
    [
        ("chat", (Phase.SUCCESSFUL, 1), (Phase.SUCCESSFUL, 20)),
        ("search", (Phase.FAILED, 1), (Phase.FAILED, 1)),
        ("embed", (Phase.INCONCLUSIVE, 1), (Phase.INCONCLUSIVE, 6)),
        ("nobody", (Phase.ERROR, 4), (Phase.ERROR, 6)),
    ],
)
def test_argo_goes_on_aborts_or_pauses(
    url: str, service: str, gate: tuple[Phase, int], watch: tuple[Phase, int]
) -> None:
    """The gate asks once, the watch until the rollout is done; both say it, and how often they ask for that."""
    assert argo("error-budget-gate", service, url).run() == gate
    assert argo("error-budget-watch", service, url).run() == watch


def test_argo_sees_an_error_where_nobody_answers(nobody: str) -> None:
    """After as many tries as the template says."""
    assert argo("error-budget-gate", "chat", nobody).run() == (Phase.ERROR, 4)


@pytest.mark.parametrize(
    ("service", "without", "phase"),
    [("search", "always200", Phase.ERROR), ("embed", "failureCondition", Phase.FAILED)],
)
def test_the_odd_lines_for_argo_are_needed(url: str, service: str, without: str, phase: Phase) -> None:
    """Without always200 no deny is seen, and with one condition alone what is undecided fails."""
    asking = argo("error-budget-gate", service, url)
    metric: dict[str, Any] = copy.deepcopy(dict(asking.metric))
    metric.pop(without, None)
    metric["provider"]["web"]["url"] = metric["provider"]["web"]["url"].replace(f"&{without}=1", "")
    assert metric != asking.metric

    assert Argo(metric, asking.arguments).measure() is phase


def test_argo_keeps_its_decisions_with_a_token(url: str, server: Server) -> None:
    """As the comment beside the question says."""
    asking = argo("error-budget-gate", "chat", url)
    metric: dict[str, Any] = copy.deepcopy(dict(asking.metric))
    metric["provider"]["web"] |= {
        "method": "POST",
        "headers": [{"key": "Authorization", "value": "Bearer {{args.token}}"}],
    }
    for token, phase in [(TOKEN, Phase.SUCCESSFUL), ("another", Phase.ERROR)]:
        assert Argo(metric, {**asking.arguments, "token": token}).measure() is phase
    assert [(one["who"], one["decision"]) for one in server.get("/api/v1/decisions?service=chat")["items"]] == [
        ("ci", "allow")
    ]


def test_the_rollout_for_argo_asks_before_it_sends_traffic() -> None:
    """Its first step is the gate, and it names every argument that has no default."""
    canary = manifest("argo-rollouts.yaml", "Rollout")["spec"]["strategy"]["canary"]
    gate, weight = canary["steps"][:2]
    assert set(weight) == {"setWeight"}
    assert canary["analysis"]["startingStep"] == 1
    for analysis, template in [(gate["analysis"], "error-budget-gate"), (canary["analysis"], "error-budget-watch")]:
        assert [one["templateName"] for one in analysis["templates"]] == [template]
        assert [one["name"] for one in analysis["args"]] == ["service"]


# --- Flagger ---


def flagger(service: str, url: str) -> tuple[Flagger, Any]:
    """The controller and its hook, for another service at another address."""
    canary = manifest("flagger.yaml", "Canary")
    (hook,) = canary["spec"]["analysis"]["webhooks"]
    assert hook["type"] in ("confirm-rollout", "pre-rollout")  # to rollback hooks 2xx means roll back
    asked = hook["url"].replace(SERVER, url).replace("service=chat", f"service={service}")
    return Flagger(canary), {**hook, "url": asked}


@pytest.mark.parametrize(
    ("service", "shown"),
    [
        ("chat", None),
        ("search", '"decision":"deny"'),
        ("embed", "giving up after 1 attempt(s)"),
        ("nobody", "service 'nobody' has no SLO"),
    ],
)
def test_flagger_passes_what_is_allowed(url: str, service: str, shown: str | None) -> None:
    """Its POST with a body of its own is answered; a canary waits on everything else, and its event says why."""
    controller, hook = flagger(service, url)
    said = controller.call(hook)

    assert said is None if shown is None else said is not None and shown in said
    assert controller.asked == 1


def test_flagger_waits_where_nobody_answers(nobody: str) -> None:
    """No answer is no allowance."""
    controller, hook = flagger("chat", nobody)

    assert "refused" in (controller.call(hook) or "")


# --- GitHub Actions and GitLab CI ---


def run(folder: Path, script: str, *shell: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a script in a folder, with slo-exporter on the path and nothing else of this machine's settings."""
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    kept = {name: value for name, value in os.environ.items() if name in ("PYTHONPATH", "HOME", "LANG")}
    return subprocess.run(
        [*shell, script],
        cwd=folder,
        env={**kept, "PATH": programs, **variables},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


class Workflow:
    """A runner of GitHub Actions: each step is a script of its own."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder = folder
        self.document = yaml.safe_load((MANIFESTS / "github-actions.yml").read_text())
        self.files = {name: folder / name for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
        self.url = url

    def step(self, job: str, key: str, value: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run the step of which *key* is *value*, with some variables set otherwise."""
        (step,) = [one for one in self.document["jobs"][job]["steps"] if one.get(key) == value]
        assert step["shell"] == "bash"
        given = {**self.document["env"], **step.get("env", {}), "SLO_EXPORTER_URL": self.url}
        given = {name: "" if text.startswith("${{") else text for name, text in given.items()}
        files = {"GITHUB_ACTIONS": "true", **{name: str(path) for name, path in self.files.items()}}
        shell = ("bash", "--noprofile", "--norc", "-eo", "pipefail", "-c")
        return run(self.folder, step["run"], *shell, **{**given, **files, **variables})

    def outputs(self) -> str:
        """What later jobs can read."""
        return self.files["GITHUB_OUTPUT"].read_text()

    def summary(self) -> str:
        """What the page of the run shows."""
        return self.files["GITHUB_STEP_SUMMARY"].read_text()


@pytest.fixture
def workflow(tmp_path: Path, url: str) -> Workflow:
    """The workflow of the examples, on a runner that reaches the server."""
    return Workflow(tmp_path, url)


VERDICTS: Mapping[str, tuple[Mapping[str, str], int, str]] = {
    "allow": ({"SERVICE": "chat"}, 0, "allow"),
    "deny": ({"SERVICE": "chat", "MIN_REMAINING": "0.6"}, 1, "deny"),
    "undecided": ({"SERVICE": "embed"}, 3, "undecided"),
    "go-on": ({"SERVICE": "embed", "ON_UNDECIDED": "go on"}, 0, "undecided"),
}
"""What is asked, then exit code and decision."""


@pytest.mark.parametrize("verdict", VERDICTS)
def test_github_fails_what_is_not_allowed(workflow: Workflow, verdict: str) -> None:
    """The exit code is the job's; the decision is an output, and the summary says why: the command sees to both."""
    variables, code, decision = VERDICTS[verdict]
    done = workflow.step("error-budget", "id", "ask", **variables)

    assert done.returncode == code, done.stdout + done.stderr
    assert f"decision={decision}" in workflow.outputs()
    summary = workflow.summary()
    assert summary.startswith("### ")
    assert {decision, variables["SERVICE"]} <= set(re.split(r"\W+", summary.splitlines()[0]))
    annotations = [line.partition(" ")[0] for line in done.stdout.splitlines() if line.startswith("::")]
    assert annotations[-1:] == {"allow": [], "go-on": ["::warning"]}.get(verdict, ["::error"])


def test_github_writes_nothing_that_the_command_writes(workflow: Workflow) -> None:
    """Its summary, outputs and errors are those of the command."""
    scripts = "".join(step.get("run", "") for job in workflow.document["jobs"].values() for step in job["steps"])
    assert [word for word in ("GITHUB_STEP_SUMMARY", "GITHUB_OUTPUT", "::error", "curl") if word in scripts] == []


def test_github_fails_a_question_that_is_wrong(workflow: Workflow) -> None:
    """A service without SLOs is never released by accident, nor with ON_UNDECIDED."""
    done = workflow.step("error-budget", "id", "ask", SERVICE="nobody", ON_UNDECIDED="go on")

    assert done.returncode == 2
    assert "service 'nobody' has no SLO" in done.stdout + done.stderr


def test_github_cannot_decide_where_nobody_answers(tmp_path: Path, nobody: str) -> None:
    """That is no denial, and no allowance."""
    workflow = Workflow(tmp_path, nobody)

    assert workflow.step("error-budget", "id", "ask").returncode == 3
    assert "decision=undecided\n" in workflow.outputs()


class LoginPage(BaseHTTPRequestHandler):
    """A proxy that answers 200 to everything."""

    def do_GET(self) -> None:
        """Answer with a page."""
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<h1>Please log in</h1>")

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def test_github_does_not_take_a_login_page_for_an_allowance(tmp_path: Path) -> None:
    """A status of 200 is not enough."""
    with HTTPServer(("127.0.0.1", 0), LoginPage) as proxy:
        thread = threading.Thread(target=proxy.serve_forever)
        thread.start()
        try:
            workflow = Workflow(tmp_path, f"http://127.0.0.1:{proxy.server_port}")
            assert workflow.step("error-budget", "id", "ask").returncode == 3
        finally:
            proxy.shutdown()
            thread.join()


def test_github_keeps_an_override_with_its_reason(workflow: Workflow, server: Server) -> None:
    """With a token it allows what the budget denies, and says who and why."""
    why = 'the fix & nothing else, "$(date)"'
    asked = {"SERVICE": "search", "OVERRIDE": why, "SLO_EXPORTER_TOKEN": TOKEN}
    done = workflow.step("error-budget", "id", "ask", **asked)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "decision=allow\n" in workflow.outputs()
    newest = server.get("/api/v1/decisions?service=search")["items"][0]
    assert (newest["who"], newest["decision"], newest["override"]) == ("ci", "allow", why)


def test_github_notes_what_was_released(workflow: Workflow, server: Server) -> None:
    """With the token, and does nothing without it."""
    step = ("release", "name", "Say what was released")
    assert workflow.step(*step, GITHUB_REF_NAME="v1.0.0").returncode == 0
    done = workflow.step(*step, GITHUB_REF_NAME="v1.1.0", SLO_EXPORTER_TOKEN=TOKEN)

    assert done.returncode == 0, done.stdout + done.stderr
    released = [(one["service"], one["version"]) for one in server.get("/api/v1/releases?service=chat")["items"]]
    assert ("chat", "v1.1.0") in released
    assert ("chat", "v1.0.0") not in released


def test_no_text_of_people_is_part_of_a_script(workflow: Workflow) -> None:
    """GitHub puts expressions into a script before the shell reads it: they come by the environment."""
    for job in workflow.document["jobs"].values():
        assert [step["run"] for step in job["steps"] if "${{" in step.get("run", "")] == []


def gitlab() -> Any:
    """The pipeline."""
    return yaml.safe_load((MANIFESTS / "gitlab-ci.yml").read_text())


def test_gitlab_gets_the_exit_code_and_the_answer(tmp_path: Path, url: str) -> None:
    """The answer is the artifact that the job names."""
    variables, code, decision = VERDICTS["undecided"]
    job, given = gitlab()[".error-budget"], {**gitlab()["variables"], "SLO_EXPORTER_URL": url, **variables}
    done = run(tmp_path, "\n".join(job["script"]), "bash", "-eo", "pipefail", "-c", **given)
    (artifact,) = job["artifacts"]["paths"]

    assert done.returncode == code, done.stdout + done.stderr
    assert json.loads((tmp_path / artifact).read_text())["decision"] == decision


def test_gitlab_goes_on_only_where_it_cannot_be_decided() -> None:
    """Of the two jobs a pipeline has one, and the milder lets pass the one code that its file says."""
    pipeline = gitlab()
    strict, mild = pipeline["error-budget"], pipeline["error-budget-or-unknown"]

    assert strict["rules"] == [{"if": '$ON_UNDECIDED != "go on"'}]
    assert mild["rules"] == [{"if": '$ON_UNDECIDED == "go on"'}]
    assert ("allow_failure" in strict, mild["allow_failure"]) == (False, {"exit_codes": [3]})
    needed = [one["job"] for one in pipeline["deploy"]["needs"]]
    assert needed == [name for name in pipeline if pipeline[name] in (strict, mild)]


def test_gitlab_notes_what_was_deployed(
    tmp_path: Path, server: Server, url: str, require: Callable[[str], Path]
) -> None:
    """After a deployment that worked, with the token."""
    require("curl")
    script = "\n".join(gitlab()["deploy"]["after_script"])
    given = {"SERVICE": "chat", "SLO_EXPORTER_URL": url, "SLO_EXPORTER_TOKEN": TOKEN}
    for status, version in [("failed", "4d5e708"), ("success", "8d070a2")]:
        done = run(tmp_path, script, "sh", "-ec", **given, CI_JOB_STATUS=status, CI_COMMIT_SHORT_SHA=version)
        assert done.returncode == 0, done.stdout + done.stderr

    released = {one["version"] for one in server.get("/api/v1/releases?service=chat")["items"]}
    assert ("8d070a2" in released, "4d5e708" in released) == (True, False)


# --- Grafana ---


def panels() -> dict[str, Any]:
    """The one query of each panel, by title."""
    dashboard = json.loads((MANIFESTS / "grafana-infinity.json").read_text())
    return {panel["title"]: panel["targets"][0] for panel in dashboard["panels"]}


def check_column(value: Any, kind: str) -> None:
    """Infinity shows flat values of the type that the column names; null is an empty cell."""
    if value is None:
        return
    assert isinstance(value, {"string": str, "number": int | float, "timestamp": str}[kind])
    if kind == "timestamp":
        assert datetime.fromisoformat(value).tzinfo is not None


@pytest.mark.parametrize("service", SERVICES)
def test_infinity_finds_every_column(url: str, service: str) -> None:
    """In each panel, for a service in each state: a flat value of its type, or null."""
    now = datetime.now(UTC)
    times = {"__from:date:iso": now - timedelta(days=7), "__to:date:iso": now}
    iso = {name: time.isoformat(timespec="milliseconds").replace("+00:00", "Z") for name, time in times.items()}
    source = Infinity(url, {"service": service, "slo": "latency", **iso})
    tables = {title: source.rows(target) for title, target in panels().items()}

    for table in tables.values():
        for row in table:
            for value, kind in row.values():
                check_column(value, kind)
    (decision,) = tables["May $service be released?"]
    assert decision["Decision"][0] == SERVICES[service]
    assert bool(tables["Why not?"]) == (service != "chat")
    assert [row["Service"][0] for row in tables["Error budgets"]] == sorted(SERVICES)
    assert tables["Error budget of $service/$slo"]


def test_infinity_is_asked_with_variables_that_the_dashboard_has() -> None:
    """And every query names the data source that is chosen."""
    dashboard = json.loads((MANIFESTS / "grafana-infinity.json").read_text())
    known = {one["name"] for one in dashboard["templating"]["list"]}
    used = re.findall(r"\$\{?(\w+)", json.dumps(dashboard["panels"]))

    assert set(used) - {"__from", "__to"} == known
    assert {panel["targets"][0]["datasource"]["uid"] for panel in dashboard["panels"]} == {"${datasource}"}


# --- Prometheus: Flagger and KEDA ---


@pytest.fixture(scope="module")
def prometheus(server: Server, scraper: Prometheus, require: Callable[[str], Path]) -> Prometheus:
    """A Prometheus that saw requests to chat come."""
    require("prometheus")
    scraper.until(lambda: scraper.query("up") == {(): 1})
    send(server, "chat")
    scraper.until(lambda: list(scraper.query('rate(inference_stage_duration_seconds_sum{service="chat"}[1m]) > 0')))
    return scraper


@pytest.mark.parametrize(
    ("metric", "service", "shown"),
    [
        ("error-budget-remaining", "chat", None),
        ("error-budget-remaining", "search", "-99.0 is out of range"),
        ("error-budget-remaining", "embed", "no values found"),
        ("error-budget-burn", "chat", None),
        ("error-budget-burn", "search", "100.0 is out of range"),
        ("error-budget-burn", "embed", "no values found"),
    ],
)
def test_flagger_reads_the_budget_from_prometheus(
    prometheus: Prometheus, metric: str, service: str, shown: str | None
) -> None:
    """A canary goes on within the range, and halts outside of it and without data."""
    canary = manifest("flagger.yaml", "Canary")
    (check,) = [one for one in canary["spec"]["analysis"]["metrics"] if one["templateRef"]["name"] == metric]
    template = manifest("flagger.yaml", "MetricTemplate", metric)
    assert template["spec"]["provider"]["address"] == PROMETHEUS
    template["spec"]["provider"]["address"] = f"http://127.0.0.1:{prometheus.port}"
    variables = {**check["templateVariables"], "service": service}

    assert Flagger(canary).check({**check, "templateVariables": variables}, template) == shown


def trigger(called: str, name: str, service: str, url: str) -> Any:
    """A trigger of a ScaledObject, for another service at another address."""
    (found,) = [one for one in manifest("keda.yaml", "ScaledObject", called)["spec"]["triggers"] if one["name"] == name]
    text = json.dumps(found).replace(SERVER, url).replace(PROMETHEUS, url)
    return json.loads(text.replace("/slos/chat/", f"/slos/{service}/").replace(r"\"chat\"", rf"\"{service}\""))


@pytest.mark.parametrize(("service", "burn"), [("chat", 0.5), ("search", 100)])
def test_keda_scales_on_the_burn_rate(prometheus: Prometheus, url: str, service: str, burn: float) -> None:
    """From Prometheus and without one it is the same number, not divided by the replicas."""
    asked = trigger("chat", "burning", service, f"http://127.0.0.1:{prometheus.port}")
    direct = trigger("chat-without-prometheus", "burning", service, url)

    assert keda(asked) == pytest.approx(burn)
    assert keda(direct) == pytest.approx(burn)
    assert {asked["metricType"], direct["metricType"]} == {"Value"}


def test_keda_scales_on_requests_that_wait(prometheus: Prometheus) -> None:
    """The sum of what they waited for, per second and replica."""
    asked = trigger("chat", "waiting", "chat", f"http://127.0.0.1:{prometheus.port}")

    assert keda(asked) > 0
    assert asked["metricType"] == "AverageValue"


@pytest.mark.parametrize("name", ["waiting", "burning"])
def test_keda_is_in_error_without_data(prometheus: Prometheus, name: str) -> None:
    """Only with the default of ignoreNullValues it would scale in."""
    asked = trigger("chat", name, "embed", f"http://127.0.0.1:{prometheus.port}")
    with pytest.raises(KedaError, match="target may be lost"):
        keda(asked)

    del asked["metadata"]["ignoreNullValues"]
    assert keda(asked) == 0


@pytest.mark.parametrize(("service", "why"), [("embed", "got: None"), ("nobody", "api returned 404")])
def test_keda_is_in_error_where_there_is_no_number(url: str, service: str, why: str) -> None:
    """Null is no number, and a misspelled service is found out."""
    with pytest.raises(KedaError, match=why):
        keda(trigger("chat-without-prometheus", "burning", service, url))
