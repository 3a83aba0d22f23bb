"""The Kubernetes manifests: against the schemas of Kubernetes, and against the code that they run."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from app.cli.commands import cli
from app.main import create_app
from app.settings import Settings
from tests.project.dockerfile import read

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy" / "kubernetes"
KUSTOMIZATION: dict[str, Any] = yaml.safe_load((FOLDER / "kustomization.yaml").read_text(encoding="utf-8"))
VERSIONS = ("1.33", "1.37")
FROM_ELSEWHERE = {"PGPASSWORD", "AWS_REGION", "OPENBLAS_NUM_THREADS"}


def documents() -> Iterator[dict[str, Any]]:
    for name in KUSTOMIZATION["resources"]:
        yield from yaml.safe_load_all((FOLDER / name).read_text(encoding="utf-8"))


MANIFESTS = list(documents())


def of_kind(kind: str) -> list[dict[str, Any]]:
    return [manifest for manifest in MANIFESTS if manifest["kind"] == kind]


def pods() -> list[dict[str, Any]]:
    return [manifest["spec"]["template"] for manifest in (*of_kind("Deployment"), *of_kind("Job"))]


def container(component: str) -> dict[str, Any]:
    (found,) = [
        pod["spec"]["containers"][0]
        for pod in pods()
        if pod["metadata"]["labels"]["app.kubernetes.io/component"] == component
    ]
    assert isinstance(found, dict)
    return found


def environment(component: str) -> dict[str, str]:
    (settings,) = of_kind("ConfigMap")
    own: dict[str, str] = {item["name"]: item["value"] for item in container(component).get("env", ())}
    return {**settings["data"], **own}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda m: f"{m['kind']} {m['metadata']['name']}")
def test_they_are_of_the_schema(manifest: dict[str, Any], version: str) -> None:
    assert kubernetes_validate.validate(manifest, version, strict=True) == version


def test_all_files_are_named() -> None:
    assert {path.name for path in FOLDER.iterdir()} == {*KUSTOMIZATION["resources"], "kustomization.yaml"}


def test_commands_and_settings_exist() -> None:
    commands = {command.name or command.callback.__name__ for command in cli.registered_commands if command.callback}
    for component in ("api", "worker", "migrate"):
        program, command = container(component)["command"]
        assert (program, command in commands) == ("pursuit", True)
        named = set(environment(component)) - FROM_ELSEWHERE
        assert {name.removeprefix("PURSUIT_").lower() for name in named} <= set(Settings.model_fields)
        assert all(name.startswith("PURSUIT_") for name in named)


def test_settings_are_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    for component in ("api", "worker"):
        for name, value in environment(component).items():
            if name != "PURSUIT_ARTEFACT_URL":
                monkeypatch.setenv(name, value)
        assert Settings().database.startswith("postgresql://")


def test_probes_ask_for_what_is_there() -> None:
    paths = set(create_app(Settings()).openapi()["paths"])
    api = container("api")
    (port,) = api["ports"]
    assert str(port["containerPort"]) == next(i.rest for i in read(ROOT / "Dockerfile") if i.word == "EXPOSE")
    probes = {name: api[name]["httpGet"] for name in ("startupProbe", "readinessProbe", "livenessProbe")}
    for probe in probes.values():
        assert probe["path"] in paths
        assert probe["port"] == port["name"]
    assert probes["startupProbe"]["path"] == "/health/ready"
    assert probes["livenessProbe"]["path"] == "/health/live", "the database's death is not cured by restarting us"
    assert probes["readinessProbe"]["path"] == "/health/live", "nor by sending nobody to those who can still predict"
    (service,) = of_kind("Service")
    assert service["spec"]["ports"][0]["targetPort"] == port["name"]


def test_there_is_time_to_stop() -> None:
    (pod,) = [pod["spec"] for pod in pods() if pod["spec"]["containers"][0]["name"] == "api"]
    (pause,) = pod["containers"][0]["lifecycle"]["preStop"]["exec"]["command"][1:]
    assert pod["terminationGracePeriodSeconds"] > int(pause) + float(environment("api")["PURSUIT_DRAIN_SECONDS"])


def test_a_worker_knows_its_cores_and_its_memory_and_blas_has_one_thread() -> None:
    worker = container("worker")
    resources = worker["resources"]
    assert resources["requests"]["cpu"] == resources["limits"]["cpu"] == environment("worker")["PURSUIT_THREADS"]
    memory = int(resources["limits"]["memory"].removesuffix("Gi")) << 30
    assert 0.8 * memory < int(environment("worker")["PURSUIT_MEMORY_LIMIT"]) < memory
    assert environment("worker")["OPENBLAS_NUM_THREADS"] == environment("api")["OPENBLAS_NUM_THREADS"] == "1"


def test_no_pod_is_root_or_may_write_where_it_should_not() -> None:
    (user,) = [i.rest for i in read(ROOT / "Dockerfile") if i.word == "USER"]
    (data,) = [i.rest for i in read(ROOT / "Dockerfile") if i.word == "VOLUME"]
    for pod in pods():
        spec = pod["spec"]
        assert spec["securityContext"]["runAsNonRoot"]
        assert str(spec["securityContext"]["runAsUser"]) == user
        assert not spec["automountServiceAccountToken"]
        for one in spec["containers"]:
            assert one["securityContext"]["readOnlyRootFilesystem"]
            assert not one["securityContext"]["allowPrivilegeEscalation"]
            assert one["securityContext"]["capabilities"] == {"drop": ["ALL"]}
            assert {mount["mountPath"] for mount in one["volumeMounts"]} == {data, "/tmp"}
            assert {"secretRef": {"name": "pursuit"}} in one["envFrom"]


def test_selectors_find_their_pods() -> None:
    labels = [pod["metadata"]["labels"] for pod in pods()]
    selectors = [manifest["spec"]["selector"]["matchLabels"] for manifest in of_kind("PodDisruptionBudget")]
    selectors += [manifest["spec"]["podSelector"]["matchLabels"] for manifest in of_kind("NetworkPolicy")]
    selectors += [manifest["spec"]["selector"]["matchLabels"] for manifest in of_kind("Deployment")]
    selectors += [manifest["spec"]["selector"] for manifest in of_kind("Service")]
    for selector in selectors:
        assert any(selector.items() <= pod.items() for pod in labels), selector
    names = {manifest["metadata"]["name"] for manifest in of_kind("Deployment")}
    assert {manifest["spec"]["scaleTargetRef"]["name"] for manifest in of_kind("HorizontalPodAutoscaler")} == names


def test_secrets_are_only_referred_to() -> None:
    assert of_kind("Secret") == []
    text = "".join(path.read_text(encoding="utf-8") for path in FOLDER.iterdir())
    assert "://pursuit:" not in text


def test_nobody_goes_without_api_keys() -> None:
    assert "INSECURE" not in "".join(path.read_text(encoding="utf-8") for path in FOLDER.iterdir())
