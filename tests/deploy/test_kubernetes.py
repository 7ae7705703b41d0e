"""deploy/kubernetes: valid, locked down, and at one with the program and its image."""

import os
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from slo_exporter import __version__
from slo_exporter.config import settings, slo_file
from slo_exporter.web.metrics.catalogue import CATALOGUE

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy/kubernetes"
KUSTOMIZATION: dict[str, Any] = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())
WORKLOADS = ("Deployment", "DaemonSet")

# As in tests/rules/test_committed_rules.py: further Prometheus programs, each with its promtool beside it.
NEWER = [program for program in os.environ.get("SLO_EXPORTER_PROMETHEUS", "").split(":") if program]
PROMTOOLS = ["promtool", *(str(Path(program).with_name("promtool")) for program in NEWER)]


def objects() -> Iterator[dict[str, Any]]:
    """Everything that the kustomization lists."""
    for name in KUSTOMIZATION["resources"]:
        yield from yaml.safe_load_all((FOLDER / name).read_text())


def one(kind: str) -> dict[str, Any]:
    """The only object of its kind."""
    (found,) = [item for item in objects() if item["kind"] == kind]
    return found


def pod(kind: str) -> dict[str, Any]:
    """The pod of a workload."""
    template: dict[str, Any] = one(kind)["spec"]["template"]
    return template


def container(kind: str) -> dict[str, Any]:
    """The one container of a workload."""
    (found,) = pod(kind)["spec"]["containers"]
    return dict(found)


def ports(kind: str) -> dict[str, int]:
    """Ports of a workload by name."""
    return {port["name"]: port["containerPort"] for port in container(kind)["ports"]}


def generated(name: str) -> dict[str, Path]:
    """The files of a ConfigMap that is generated, by key."""
    (found,) = [entry for entry in KUSTOMIZATION["configMapGenerator"] if entry["name"] == name]
    pairs = [text.rpartition("=") for text in found["files"]]
    return {key or Path(file).name: FOLDER / file for key, _, file in pairs}


def mounted(kind: str) -> dict[str, Path]:
    """The files of this repository that a container sees, by path."""
    maps = {volume["name"]: volume["configMap"] for volume in pod(kind)["spec"]["volumes"] if "configMap" in volume}
    mounts = [mount for mount in container(kind)["volumeMounts"] if mount["name"] in maps]
    return {
        f"{mount['mountPath']}/{key}": file
        for mount in mounts
        for key, file in generated(maps[mount["name"]]["name"]).items()
    }


def loaded(kind: str, folder: Path) -> settings.Settings:
    """The settings that a workload runs with, its files laid out in *folder*."""
    for path, file in mounted(kind).items():
        target = folder / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(file.read_text().replace("/etc/", f"{folder}/etc/"))
    command, option, config = container(kind)["args"]
    assert (command, option) == ("serve", "--config")
    environ = {entry["name"]: entry["value"] for entry in container(kind)["env"]}
    return settings.load(folder / config.lstrip("/"), environ=environ)


each_workload = pytest.mark.parametrize("kind", WORKLOADS)


def test_every_manifest_is_valid(require: Callable[[str], Path]) -> None:
    """No field is missing, misspelt or of another type, by the schemas of Kubernetes."""
    program = require(os.environ.get("SLO_EXPORTER_KUBERNETES_VALIDATE", "kubernetes-validate"))
    files = [FOLDER / name for name in KUSTOMIZATION["resources"]]

    said = subprocess.run([program, "--strict", *files], capture_output=True, text=True, check=False)

    assert said.returncode == 0, said.stdout + said.stderr
    assert said.stdout.count(" passed for resource ") == len(list(objects()))


def test_the_kustomization_names_every_file() -> None:
    """What lies beside it is used, but for what is applied by itself."""
    files = {file.name for file in FOLDER.glob("*.yaml")} - {"kustomization.yaml"}
    generators = [text.rpartition("=")[2] for entry in KUSTOMIZATION["configMapGenerator"] for text in entry["files"]]

    assert files == set(KUSTOMIZATION["resources"])
    assert {FOLDER / file for file in generators} == {*FOLDER.glob("settings/*.yaml"), *FOLDER.glob("slos/*.yaml")}


def test_its_image_is_this_version() -> None:
    """One place says which image; the manifests name it without a tag."""
    (image,) = KUSTOMIZATION["images"]

    assert image["newTag"] == __version__
    assert {container(kind)["image"] for kind in WORKLOADS} == {image["name"]}


@each_workload
def test_settings_and_objectives_are_right(kind: str, tmp_path: Path) -> None:
    """What it would start with is what the program takes, and the ports are those that it listens on."""
    given = loaded(kind, tmp_path)
    listening = {"http": given.listen, "otlp-grpc": given.otlp.grpc, "otlp-http": given.otlp.http}

    assert slo_file.load(given.slo_files, given.retention_ns, given.gpu.groups)
    assert ports(kind) == {name: address.port for name, address in listening.items() if address.host == "0.0.0.0"}  # noqa: S104


def test_gpus_are_read_on_their_nodes_and_spans_taken_by_the_server(tmp_path: Path) -> None:
    """Neither does the work of the other."""
    server, gpus = (loaded(kind, tmp_path / kind) for kind in WORKLOADS)

    assert (server.gpu.source, gpus.gpu.source) == ("off", "nvml")
    assert {gpus.otlp.grpc.host, gpus.otlp.http.host} == {"127.0.0.1"}


def test_the_gpu_pod_takes_no_gpu_away() -> None:
    """NVIDIA's runtime shows it all of them, for NVML; it asks for none, and any taint of theirs is tolerated."""
    environ = {entry["name"]: entry["value"] for entry in container("DaemonSet")["env"]}

    assert pod("DaemonSet")["spec"]["runtimeClassName"] == "nvidia"
    assert environ["NVIDIA_VISIBLE_DEVICES"] == "all"
    assert environ["NVIDIA_DRIVER_CAPABILITIES"] == "utility"
    assert {key for part in container("DaemonSet")["resources"].values() for key in part} == {"cpu", "memory"}
    assert pod("DaemonSet")["spec"]["tolerations"] == [{"key": "nvidia.com/gpu", "operator": "Exists"}]


@each_workload
def test_a_pod_has_no_more_rights_than_it_needs(kind: str) -> None:
    """As the namespace demands: the strictest Pod Security Standard."""
    spec, rights = pod(kind)["spec"], container(kind)["securityContext"]

    assert one("Namespace")["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert spec["automountServiceAccountToken"] is False
    assert rights == {
        "readOnlyRootFilesystem": True,
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
    }
    assert not any("hostPath" in volume for volume in spec["volumes"])


@each_workload
def test_what_is_written_is_a_volume(kind: str) -> None:
    """/data and /tmp, as the image says; /data belongs to its user."""
    writable = {mount["mountPath"] for mount in container(kind)["volumeMounts"] if not mount.get("readOnly")}
    user = re.findall(r"^USER (\d+):(\d+)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)

    assert writable == {"/data", "/tmp"}  # noqa: S108 - in a container
    assert [str(pod(kind)["spec"]["securityContext"]["fsGroup"])] == [group for _, group in user]


def test_a_database_has_one_writer() -> None:
    """The old server stops before the new one starts."""
    assert one("Deployment")["spec"]["replicas"] == 1
    assert one("Deployment")["spec"]["strategy"] == {"type": "Recreate"}


@each_workload
def test_probes_ask_what_is_there_to_be_asked(kind: str) -> None:
    """/healthz while it lives, /readyz while it accepts."""
    asked = {name: probe["httpGet"] for name, probe in container(kind).items() if name.endswith("Probe")}

    assert asked.pop("readinessProbe") == {"path": "/readyz", "port": "http"}
    assert asked.pop("livenessProbe") == {"path": "/healthz", "port": "http"}
    assert set(map(str, asked.values())) <= {str({"path": "/healthz", "port": "http"})}
    assert pod(kind)["spec"]["terminationGracePeriodSeconds"] > 10


@each_workload
def test_a_pod_says_where_it_is_scraped(kind: str) -> None:
    """Annotations with the port of /metrics."""
    said = pod(kind)["metadata"]["annotations"]

    assert said == {
        "prometheus.io/scrape": "true",
        "prometheus.io/port": str(ports(kind)["http"]),
        "prometheus.io/path": "/metrics",
    }


def test_the_service_leads_to_the_server_alone() -> None:
    """Its ports are the container's, by name; its labels are no other pod's."""
    service = one("Service")["spec"]

    assert {port["targetPort"]: port["port"] for port in service["ports"]} == ports("Deployment")
    assert service["selector"] == pod("Deployment")["metadata"]["labels"]
    assert service["selector"] != pod("DaemonSet")["metadata"]["labels"]


def test_the_network_lets_in_who_may_come() -> None:
    """Spans and readers by labels of their namespaces; nothing goes out."""
    policy = one("NetworkPolicy")["spec"]
    opened = {
        label: [port["port"] for port in rule["ports"]]
        for rule in policy["ingress"]
        for source in rule["from"]
        for label in source["namespaceSelector"]["matchLabels"]
    }

    assert opened == {"slo-exporter/sends": ["otlp-grpc", "otlp-http"], "slo-exporter/reads": ["http"]}
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    assert "egress" not in policy
    for kind in WORKLOADS:
        assert policy["podSelector"]["matchLabels"].items() <= pod(kind)["metadata"]["labels"].items()


def test_labels_of_targets_are_none_of_ours_but_service() -> None:
    """With honor_labels ours would win: only `service` is meant to."""
    ours = {label for metric in CATALOGUE for label in metric.labels}

    assert ours & {"job", "instance", "pod", "namespace", "node", "container", "endpoint", "service"} == {"service"}


JOBS = {"Deployment": "slo-exporter", "DaemonSet": "slo-exporter-gpus"}
"""Each has a job of its own: alerts go by its name."""


@each_workload
def test_a_pod_monitor_finds_its_pods_alone(kind: str) -> None:
    """The port has that name in the pod, the job is called as our alerts call it, and labels stay ours."""
    monitors = list(yaml.safe_load_all((FOLDER / "prometheus-operator/pod-monitor.yaml").read_text()))
    (monitor,) = [one["spec"] for one in monitors if one["metadata"]["name"] == JOBS[kind]]
    (endpoint,) = monitor["podMetricsEndpoints"]
    jobs = [rule["replacement"] for rule in endpoint["relabelings"] if rule["targetLabel"] == "job"]
    found = [
        one for one in WORKLOADS if monitor["selector"]["matchLabels"].items() <= pod(one)["metadata"]["labels"].items()
    ]

    assert endpoint["honorLabels"] is True
    assert found == [kind]
    assert jobs == [JOBS[kind]]
    assert endpoint["port"] in ports(kind)


def test_alerts_go_by_the_jobs_that_there_are() -> None:
    """Names of jobs stand in the rules."""
    asked = re.findall(r'job="([^"]+)"', (ROOT / "rules/slo-exporter.rules.yml").read_text())

    assert set(asked) == set(JOBS.values())


def test_the_hosts_of_gpus_have_names() -> None:
    """Of them alone: counts of the server move with its pod."""
    jobs = yaml.safe_load((FOLDER / "prometheus-scrape.yml").read_text())["scrape_configs"]
    monitors = yaml.safe_load_all((FOLDER / "prometheus-operator/pod-monitor.yaml").read_text())
    named = [one["metadata"]["name"] for one in monitors if "targetLabel: node" in yaml.safe_dump(one)]

    assert [job["job_name"] for job in jobs if "target_label: node" in yaml.safe_dump(job)] == named
    assert named == ["slo-exporter-gpus"]


@pytest.mark.parametrize("program", PROMTOOLS)
def test_promtool_has_nothing_against_the_scrape_job(
    program: str, require: Callable[[str], Path], tmp_path: Path
) -> None:
    """Debian builds some without the discovery of Kubernetes: those are asked about the rest."""
    promtool = require(program)
    config = yaml.safe_load((FOLDER / "prometheus-scrape.yml").read_text())
    jobs = config["scrape_configs"]

    def check() -> subprocess.CompletedProcess[str]:
        (tmp_path / "prometheus.yml").write_text(yaml.safe_dump(config))
        command = [promtool, "check", "config", tmp_path / "prometheus.yml"]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    said = check()
    if "field kubernetes_sd_configs not found" in said.stderr:
        for job in jobs:
            del job["kubernetes_sd_configs"]
        said = check()

    assert said.returncode == 0, said.stderr
    components = [job["relabel_configs"][0]["regex"] for job in jobs]
    assert [job["job_name"] for job in jobs] == list(JOBS.values())
    assert components == [pod(kind)["metadata"]["labels"]["app.kubernetes.io/component"] for kind in JOBS]
    assert all(job["honor_labels"] is True for job in jobs)
