"""The Kubernetes manifests, rendered: against the schemas of Kubernetes and KEDA, and the code that they run."""

import copy
import json
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import ExitStack
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml
from distributed import Client

from app.cli.commands import cli
from app.main import create_app
from app.settings import Settings
from tests.ports import free_port, listens
from tests.processes import wait_until
from tests.project.dockerfile import read
from tests.project.kustomize import Manifest, containers, files, render

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy" / "kubernetes"
PACKAGES = "import pursuit_gp; print(pursuit_gp.ROOT)"
PROMETHEUS = FOLDER / "components" / "keda-prometheus"
SIZES = {name: render(FOLDER / name) for name in ("small", "medium", "large")} | {
    "prometheus": render(FOLDER / "medium", PROMETHEUS)
}
SEVERAL = [name for name in SIZES if name != "small"]
VERSIONS = ("1.33", "1.37")
FROM_ELSEWHERE = {"PGPASSWORD", "AWS_REGION", "OPENBLAS_NUM_THREADS"}
KEDA = jsonschema.Draft202012Validator(json.loads(Path(__file__).with_name("keda.schema.json").read_text()))
SERVICE, DASK = "pursuit", "pursuit-dask"


def texts() -> str:
    return "".join(path.read_text(encoding="utf-8") for path in FOLDER.rglob("*.yaml"))


def of_kind(size: str, *kinds: str) -> list[Manifest]:
    return [manifest for manifest in SIZES[size] if manifest["kind"] in kinds]


def pods(size: str) -> list[dict[str, Any]]:
    return [manifest["spec"]["template"] for manifest in of_kind(size, "Deployment", "Job")]


def container(size: str, name: str) -> dict[str, Any]:
    (found,) = [one for pod in pods(size) for one in pod["spec"]["containers"] if one["name"] == name]
    assert isinstance(found, dict)
    return found


def pod_of(size: str, name: str) -> dict[str, Any]:
    (found,) = [pod for pod in pods(size) if name in {one["name"] for one in pod["spec"]["containers"]}]
    return found


def environment(size: str, name: str) -> dict[str, str]:
    (settings,) = of_kind(size, "ConfigMap")
    own: dict[str, str] = {item["name"]: item["value"] for item in container(size, name).get("env", ())}
    return {**settings["data"], **own}


def is_of_the_service(pod: dict[str, Any]) -> bool:
    return bool(pod["metadata"]["labels"]["app.kubernetes.io/name"] == SERVICE)


MANIFESTS = [(size, manifest) for size in SIZES for manifest in SIZES[size]]


@pytest.mark.parametrize(
    ("size", "manifest"), MANIFESTS, ids=[f"{s} {m['kind']} {m['metadata']['name']}" for s, m in MANIFESTS]
)
def test_they_are_of_the_schema(size: str, manifest: Manifest) -> None:  # noqa: ARG001  in the name of the test
    if manifest["apiVersion"].startswith("keda.sh/"):
        KEDA.validate(manifest)
        return
    for version in VERSIONS:
        assert kubernetes_validate.validate(manifest, version, strict=True) == version


def test_the_schema_of_keda_refuses_what_keda_does() -> None:
    (good,) = of_kind("prometheus", "ScaledObject")
    for path, value in (
        (("spec", "scaleTargetRef"), {}),
        (("spec", "minReplicaCount"), "0"),
        (("spec", "minReplicas"), 1),
        (("spec", "fallback", "behavior"), "currentReplicasIfLarger"),
        (("spec", "triggers"), []),
        (("spec", "triggers", 0, "metadata", "threshold"), 1),
        (("spec", "triggers", 0, "metadata", "targetValue"), "1"),
        (("spec", "triggers", 0, "type"), "postgres"),
    ):
        broken = copy.deepcopy(good)
        place: Any = broken
        for name in path[:-1]:
            place = place[name]
        place[path[-1]] = value
        assert not KEDA.is_valid(broken), path


@pytest.mark.parametrize("size", ["small", "medium", "large"])
def test_the_real_kustomize_makes_the_same(size: str) -> None:
    commands = {"kustomize": ["kustomize", "build"], "kubectl": ["kubectl", "kustomize"]}
    command = next((words for program, words in commands.items() if shutil.which(program)), None)
    if command is None:
        pytest.skip("there is neither kustomize nor kubectl on this machine")
    made = subprocess.run([*command, FOLDER / size], capture_output=True, text=True, check=False, timeout=60.0)
    assert made.returncode == 0, made.stderr

    def key(manifest: Manifest) -> tuple[str, str]:
        return manifest["kind"], manifest["metadata"]["name"]

    assert sorted(yaml.safe_load_all(made.stdout), key=key) == sorted(SIZES[size], key=key)


def test_all_files_are_used() -> None:
    used = {path.resolve() for folder in (*map(FOLDER.joinpath, ("small", "medium", "large")), PROMETHEUS)
            for path in files(folder)}  # fmt: skip
    assert used == {path.resolve() for path in FOLDER.rglob("*") if path.is_file()}


def test_images_are_of_this_version() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    images = {one["image"] for manifests in SIZES.values() for each in manifests for one in containers(each)}
    assert images == {f"registry.example.com/pursuit:{version}"}


@pytest.mark.parametrize("size", SIZES)
def test_commands_and_settings_exist(size: str) -> None:
    commands = {command.name or command.callback.__name__ for command in cli.registered_commands if command.callback}
    for pod in filter(is_of_the_service, pods(size)):
        for one in pod["spec"]["containers"]:
            program, command = one["command"]
            assert (program, command in commands) == ("pursuit", True)
            named = set(environment(size, one["name"])) - FROM_ELSEWHERE
            assert {name.removeprefix("PURSUIT_").lower() for name in named} <= set(Settings.model_fields)
            assert all(name.startswith("PURSUIT_") for name in named)


@pytest.mark.parametrize("size", SIZES)
def test_settings_are_accepted(size: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for component in ("api", *workers_of(size)):
        for name, value in environment(size, component).items():
            if name != "PURSUIT_ARTEFACT_URL":
                monkeypatch.setenv(name, value)
        assert Settings().database.startswith("sqlite://" if size == "small" else "postgresql://")


@pytest.mark.parametrize("size", ["small", "medium"])
def test_probes_ask_for_what_is_there(size: str) -> None:
    paths = set(create_app(Settings()).openapi()["paths"])
    api = container(size, "api")
    (port,) = api["ports"]
    assert str(port["containerPort"]) == next(i.rest for i in read(ROOT / "Dockerfile") if i.word == "EXPOSE")
    probes = {name: api[name]["httpGet"] for name in ("startupProbe", "readinessProbe", "livenessProbe")}
    for probe in probes.values():
        assert probe["path"] in paths
        assert probe["port"] == port["name"]
    assert probes["startupProbe"]["path"] == "/health/ready"
    assert probes["livenessProbe"]["path"] == "/health/live", "the database's death is not cured by restarting us"
    assert probes["readinessProbe"]["path"] == "/health/live", "nor by sending nobody to those who can still predict"
    (service,) = of_kind(size, "Service")
    assert service["spec"]["ports"][0]["targetPort"] == port["name"]


def workers_of(size: str) -> list[str]:
    return ["worker", "worker-large"] if size == "large" else ["worker"]


@pytest.mark.parametrize("size", SIZES)
def test_there_is_time_to_stop(size: str) -> None:
    grace = pod_of(size, "api")["spec"]["terminationGracePeriodSeconds"]
    (pause,) = container(size, "api")["lifecycle"]["preStop"]["exec"]["command"][1:]
    assert grace > int(pause) + float(environment(size, "api")["PURSUIT_DRAIN_SECONDS"])
    for name in workers_of(size):
        drain = float(environment(size, name).get("PURSUIT_WORKER_DRAIN_SECONDS", "0"))
        assert pod_of(size, name)["spec"]["terminationGracePeriodSeconds"] >= drain + 20
        assert drain > 0 or size == "small", "what an autoscaler ends has a job in hand"


@pytest.mark.parametrize("size", SIZES)
def test_a_worker_knows_its_cores_and_its_memory_and_blas_has_one_thread(size: str) -> None:
    for name in workers_of(size):
        resources, own = container(size, name)["resources"], environment(size, name)
        assert resources["requests"]["cpu"] == resources["limits"]["cpu"] == own["PURSUIT_THREADS"]
        memory = int(resources["limits"]["memory"].removesuffix("Gi")) << 30
        assert 0.8 * memory < int(own["PURSUIT_MEMORY_LIMIT"]) < memory
    assert {environment(size, name)["OPENBLAS_NUM_THREADS"] for name in (*workers_of(size), "api")} == {"1"}


@pytest.mark.parametrize("size", SIZES)
def test_no_pod_is_root_or_may_write_where_it_should_not(size: str) -> None:
    (user,) = [i.rest for i in read(ROOT / "Dockerfile") if i.word == "USER"]
    (data,) = [i.rest for i in read(ROOT / "Dockerfile") if i.word == "VOLUME"]
    for pod in pods(size):
        spec = pod["spec"]
        assert spec["securityContext"]["runAsNonRoot"]
        assert str(spec["securityContext"]["runAsUser"]) == user
        assert not spec["automountServiceAccountToken"]
        for one in spec["containers"]:
            assert one["securityContext"]["readOnlyRootFilesystem"]
            assert not one["securityContext"]["allowPrivilegeEscalation"]
            assert one["securityContext"]["capabilities"] == {"drop": ["ALL"]}
            assert {mount["mountPath"] for mount in one["volumeMounts"]} - {"/shards"} == {data, "/tmp"}
            assert set(one["resources"]["limits"]) >= {"memory"}
            assert set(one["resources"]["requests"]) == {"cpu", "memory"}
            secret = {"secretRef": {"name": "pursuit"}} in one.get("envFrom", ())
            assert secret is (is_of_the_service(pod) and size != "small"), "Dask's pods run what they are sent"


@pytest.mark.parametrize("size", SIZES)
def test_selectors_find_their_pods(size: str) -> None:
    labels = [pod["metadata"]["labels"] for pod in pods(size)]
    owners = of_kind(size, "PodDisruptionBudget", "Deployment")
    selectors = [one["spec"]["selector"] for one in owners]
    selectors += [manifest["spec"]["podSelector"] for manifest in of_kind(size, "NetworkPolicy")]
    selectors += [{"matchLabels": manifest["spec"]["selector"]} for manifest in of_kind(size, "Service")]
    for selector in selectors:
        assert any(selects(selector, pod) for pod in labels), selector
    for kind in ("PodDisruptionBudget", "Deployment"):
        for pod in labels:
            assert sum(selects(one["spec"]["selector"], pod) for one in owners if one["kind"] == kind) <= 1, pod
    volumes = {one["metadata"]["name"] for one in of_kind(size, "PersistentVolumeClaim")}
    claimed = {v["persistentVolumeClaim"]["claimName"] for pod in pods(size) for v in pod["spec"]["volumes"]
               if "persistentVolumeClaim" in v}  # fmt: skip
    assert claimed == volumes


@pytest.mark.parametrize("size", SEVERAL)
def test_each_number_of_pods_has_one_owner_and_none_go_all_at_once(size: str) -> None:
    scalers = of_kind(size, "HorizontalPodAutoscaler", "ScaledObject")
    owned = [manifest["spec"]["scaleTargetRef"]["name"] for manifest in scalers]
    alone = [one for one in of_kind(size, "Deployment") if one["spec"].get("replicas") == 1]
    assert sorted(owned + [one["metadata"]["name"] for one in alone]) == sorted(
        one["metadata"]["name"] for one in of_kind(size, "Deployment")
    )
    assert not [
        one for one in of_kind(size, "Deployment") if one["metadata"]["name"] in owned and "replicas" in one["spec"]
    ]
    guarded = {one["metadata"]["name"] for one in of_kind(size, "PodDisruptionBudget")}
    assert guarded == set(owned)
    kinds = {one["spec"]["scaleTargetRef"]["name"]: one["kind"] for one in scalers}
    assert kinds["pursuit-worker"] == ("HorizontalPodAutoscaler" if size == "medium" else "ScaledObject")


def selects(selector: dict[str, Any], labels: dict[str, str]) -> bool:
    """True if pods of these labels are selected."""
    assert set(selector) <= {"matchLabels", "matchExpressions"}
    for rule in selector.get("matchExpressions", ()):
        assert rule["operator"] == "In"
        if labels.get(rule["key"]) not in rule["values"]:
            return False
    return bool(selector.get("matchLabels", {}).items() <= labels.items())


def reaches(size: str, source: dict[str, str], target: dict[str, str], port: int) -> bool:
    """True if pods of these labels may connect: the policies of the one let it out and those of the other let it in."""

    def allowed(direction: str, end: str, subject: dict[str, str], other: dict[str, str]) -> bool:
        policies = [
            one["spec"]
            for one in of_kind(size, "NetworkPolicy")
            if direction in one["spec"]["policyTypes"] and selects(one["spec"]["podSelector"], subject)
        ]
        rules = [rule for one in policies for rule in one.get(direction.lower(), ())]
        return not policies or any(
            port in {item["port"] for item in rule["ports"]}
            and any(
                "podSelector" in peer and selects(peer["podSelector"], other)
                for peer in rule.get(end, [{"podSelector": {}}])
            )
            for rule in rules
        )

    return allowed("Egress", "to", source, target) and allowed("Ingress", "from", target, source)


def labels(name: str, component: str) -> dict[str, str]:
    return {"app.kubernetes.io/name": name, "app.kubernetes.io/component": component}


def test_only_workers_and_dask_itself_reach_dask() -> None:
    dask = {name: labels(DASK, f"dask-{name}") for name in ("scheduler", "worker")}
    service = {name: labels(SERVICE, name) for name in ("api", "worker", "worker-large", "migrate")}
    ports = {name: container("large", f"dask-{name}")["ports"][0]["containerPort"] for name in dask}
    for name, port in ports.items():
        reaching = {key for key, one in service.items() if reaches("large", one, dask[name], port)}
        assert reaching == {"worker", "worker-large"}
        assert all(reaches("large", one, dask[name], port) for one in dask.values())
        assert not reaches("large", {"app": "of somebody else"}, dask[name], port)
        assert not reaches("large", service["worker"], dask[name], 22)
        assert not reaches("large", dask[name], {"app": "a database"}, 5432)
        assert not reaches("large", dask[name], service["api"], 8000)
    assert [name for name, one in dask.items() if reaches("large", one, {"app": "the store"}, 443)] == ["worker"]
    assert reaches("large", service["worker"], {"app": "a database"}, 5432)
    for size in SIZES:
        assert not reaches(size, {"app": "of somebody else"}, labels(SERVICE, "api"), 8000)
        assert not reaches(size, {"app": "of somebody else"}, labels(SERVICE, "worker"), 8000)


def test_ingress_and_prometheus_reach_the_apis() -> None:
    for size in SIZES:
        spaces = {
            peer["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"]
            for one in of_kind(size, "NetworkPolicy")
            for rule in one["spec"].get("ingress", ())
            for peer in rule["from"]
            if "namespaceSelector" in peer
        }
        assert spaces == ({"ingress", "monitoring"} if size == "prometheus" else {"ingress"})


def test_workers_and_cluster_see_the_shards_under_one_path() -> None:
    (port,) = container("large", "dask-scheduler")["ports"]
    (service,) = [one for one in of_kind("large", "Service") if one["metadata"]["name"] == DASK]
    assert (service["spec"]["ports"][0]["port"], service["spec"]["ports"][0]["targetPort"]) == (
        port["containerPort"],
        port["name"],
    )
    workers = [environment("large", name) for name in ("worker", "worker-large")]
    assert {own["PURSUIT_COMPUTE"] for own in workers} == {f"dask://{DASK}:{port['containerPort']}"}
    (shards,) = {own["PURSUIT_SHARD_DIR"] for own in workers}
    for name in ("worker", "worker-large", "dask-worker"):
        assert shards in {mount["mountPath"] for mount in container("large", name)["volumeMounts"]}
    words = container("large", "dask-worker")["args"][0]
    assert f"tcp://{DASK}:{port['containerPort']} " in words
    assert f"--worker-port {container('large', 'dask-worker')['ports'][0]['containerPort']} " in words
    assert f"--nthreads {container('large', 'dask-worker')['resources']['limits']['cpu']} " in words


def test_secrets_are_only_referred_to() -> None:
    assert [one for size in SIZES for one in of_kind(size, "Secret")] == []
    assert "://pursuit:" not in texts()


def test_nobody_goes_without_api_keys() -> None:
    assert "INSECURE" not in texts()


def names_of_files() -> Iterator[str]:
    yield from (str(path.relative_to(ROOT)) for path in FOLDER.rglob("*.yaml"))


def test_anchors_are_not_used() -> None:
    """Kustomize reads some of them and not others."""
    for name in names_of_files():
        tokens = yaml.scan((ROOT / name).read_text(encoding="utf-8"))
        assert not [one for one in tokens if isinstance(one, yaml.AnchorToken | yaml.AliasToken)], name


@pytest.mark.e2e
def test_the_commands_of_dask_make_a_cluster(tmp_path: Path) -> None:
    """As the manifests have them, but for names of hosts and ports."""
    packages = Path(subprocess.check_output([sys.executable, "-c", PACKAGES], cwd=tmp_path, text=True).strip())
    scheduler, worker = (str(free_port()) for _ in range(2))
    changes = {
        "python -c": f"{sys.executable} -c",
        "exec dask": f"exec {sys.executable} -m dask",
        "--port 8786": f"--port {scheduler} --host 127.0.0.1",
        f"tcp://{DASK}:8786": f"tcp://127.0.0.1:{scheduler} --host 127.0.0.1",
        "--worker-port 8788": f"--worker-port {worker}",
        "/tmp/dask": str(tmp_path / "dask"),
    }
    with ExitStack() as stack:
        for name in ("dask-scheduler", "dask-worker"):
            found = container("large", name)
            words = [*found["command"], *found["args"]]
            for old, new in changes.items():
                words[-1] = words[-1].replace(old, new)
            own = {item["name"]: item["value"] for item in found["env"] if "value" in item}
            started = subprocess.Popen(words, env={**os.environ, **own}, cwd=tmp_path, stderr=subprocess.DEVNULL)
            stack.callback(started.wait)
            stack.callback(started.kill)
        wait_until(lambda: listens(int(worker)), 100.0)
        with Client(f"tcp://127.0.0.1:{scheduler}", timeout=30.0) as client:
            wait_until(lambda: bool(client.nthreads()), 60.0)
            limit = int(container("large", "dask-worker")["resources"]["limits"]["cpu"])
            assert client.nthreads() == {f"tcp://127.0.0.1:{worker}": limit}
            # A function of this file would not do: an installed worker finds no tests.
            assert set(client.run(resources.files, "app.compute").values()) == {packages / "app" / "compute"}
