"""The compose files: what can be read off them, against the code that they run."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.cli.commands import cli
from app.settings import Settings
from tests.project.dockerfile import read

ROOT = Path(__file__).parents[2]
SEVERAL: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))
LAPTOP: dict[str, Any] = yaml.safe_load((ROOT / "deploy" / "laptop.yml").read_text(encoding="utf-8"))
DRAIN: float = Settings.model_fields["drain_seconds"].default


def services(compose: dict[str, Any]) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = compose["services"]
    return found


def of_the_image(compose: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {name: service for name, service in services(compose).items() if service["image"] == "pursuit"}


def seconds(text: str) -> float:
    assert text.endswith("s")
    return float(text[:-1])


@pytest.mark.parametrize("compose", [SEVERAL, LAPTOP])
def test_commands_and_settings_exist(compose: dict[str, Any]) -> None:
    commands = {command.name or command.callback.__name__ for command in cli.registered_commands if command.callback}
    for service in of_the_image(compose).values():
        program, command = service["command"]
        assert program == "pursuit"
        assert command in commands
        named = {name for name in service.get("environment", {}) if name.startswith("PURSUIT_")}
        assert {name.removeprefix("PURSUIT_").lower() for name in named} <= set(Settings.model_fields)


@pytest.mark.parametrize("compose", [SEVERAL, LAPTOP])
def test_what_is_told_to_stop_has_the_time_for_it(compose: dict[str, Any]) -> None:
    for service in of_the_image(compose).values():
        if service["command"][1] == "api":
            assert seconds(service["stop_grace_period"]) > DRAIN
    if "nginx" in services(compose):
        assert seconds(services(compose)["nginx"]["stop_grace_period"]) > DRAIN


@pytest.mark.parametrize("compose", [SEVERAL, LAPTOP])
def test_nothing_is_offered_to_the_network_unless_somebody_says_so(compose: dict[str, Any]) -> None:
    ports = [port for service in services(compose).values() for port in service.get("ports", ())]
    assert len(ports) == 1
    assert ports[0].startswith("127.0.0.1:8000:")


def test_only_what_one_machine_can_reach_goes_without_api_keys() -> None:
    """The image listens on all addresses: without a key its API does not start, unless it is told to."""
    assert "PURSUIT_HOST=0.0.0.0" in (ROOT / "Dockerfile").read_text(encoding="utf-8")
    assert "INSECURE" not in (ROOT / "Dockerfile").read_text(encoding="utf-8")
    assert "INSECURE" not in (ROOT / "docker-compose.yml").read_text(encoding="utf-8")
    open_ones = {name for name, one in services(LAPTOP).items() if one.get("environment", {}).get("PURSUIT_INSECURE")}
    assert open_ones == {"api"}
    assert all(port.startswith("127.0.0.1:") for port in services(LAPTOP)["api"]["ports"])


@pytest.mark.parametrize("compose", [SEVERAL, LAPTOP])
def test_whoever_is_waited_for_is_there_and_can_say_so(compose: dict[str, Any]) -> None:
    for service in services(compose).values():
        for name, wanted in service.get("depends_on", {}).items():
            other = services(compose)[name]
            if wanted["condition"] == "service_healthy":
                disabled = other.get("healthcheck", {}).get("disable", False)
                assert not disabled
                assert "healthcheck" in other or other["image"] == "pursuit"
    volumes = [text.partition(":")[0] for service in services(compose).values() for text in service.get("volumes", ())]
    assert {name for name in volumes if "/" not in name} == set(compose["volumes"])


@pytest.mark.parametrize("compose", [SEVERAL, LAPTOP])
def test_our_containers_run_read_only_as_nobody_and_without_privileges(compose: dict[str, Any]) -> None:
    (user,) = [i.rest for i in read(ROOT / "Dockerfile") if i.word == "USER"]
    assert int(user) > 0
    for service in of_the_image(compose).values():
        assert service["read_only"] is True
        assert service["tmpfs"] == ["/tmp"], "what is written elsewhere lies in the volume of /data"
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert "user" not in service, "the image's own"
        assert not service.get("privileged", False)


def test_the_laptop_shares_one_volume_between_api_and_worker() -> None:
    (data,) = [i.rest for i in read(ROOT / "Dockerfile") if i.word == "VOLUME"]
    assert set(services(LAPTOP)) == {"api", "worker"}
    for service in services(LAPTOP).values():
        assert service["volumes"] == [f"data:{data}"]


def test_two_apis_and_two_workers_behind_nginx() -> None:
    by_command = [service["command"][1] for service in of_the_image(SEVERAL).values()]
    assert sorted(by_command) == ["api", "api", "migrate", "worker", "worker"]
    configuration = (ROOT / "deploy" / "nginx" / "nginx.conf").read_text(encoding="utf-8")
    (port,) = [i.rest for i in read(ROOT / "Dockerfile") if i.word == "EXPOSE"]
    apis = {name for name, service in of_the_image(SEVERAL).items() if service["command"][1] == "api"}
    assert set(re.findall(rf"server (\S+):{port} resolve", configuration)) == apis
    assert f"listen {SEVERAL['services']['nginx']['ports'][0].rpartition(':')[2]} " in configuration


def test_secrets_come_from_a_file_that_is_not_in_the_repository() -> None:
    text = (ROOT / "docker-compose.yml").read_text(encoding="utf-8")
    named = set(re.findall(r"\$\{(\w+):\?", text))
    assert named == set(re.findall(r"\$\{(\w+)", text)), "a missing one is an error, not an empty string"
    example = (ROOT / "deploy" / "env.example").read_text(encoding="utf-8")
    assert named == set(re.findall(r"^(\w+)=", example, re.M))
    assert not re.search(r"^\w*(PASSWORD|SECRET)\w*=.", example, re.M)
    assert ".env" in (ROOT / ".gitignore").read_text(encoding="utf-8").split()


def test_images_are_pinned() -> None:
    for service in services(SEVERAL).values():
        assert service["image"] == "pursuit" or re.search(r":v?\d+", service["image"])
