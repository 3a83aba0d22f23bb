"""`pursuit artefact` against a server: a version as a file of each form."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from app.cli.commands import cli
from tests.app.routes.service import QUICK, Service, numbers, running


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    with running(tmp_path / "data") as found:
        found.train(numbers(40), model="cars", **QUICK)
        yield found


def pursuit(service: Service, *words: str | Path) -> Result:
    return CliRunner().invoke(cli, [str(word) for word in words], env={"PURSUIT_URL": str(service.client.base_url)})


def test_a_version_is_a_file_of_each_form(service: Service, tmp_path: Path) -> None:
    for form in ("safetensors", "onnx", "numpy"):
        file = tmp_path / f"cars.{form}"
        level = [] if form == "safetensors" else ["--interval", "0.5"]
        done = pursuit(service, "artefact", "cars@1", "--format", form, *level, "--output", file)
        assert done.exit_code == 0, done.output
        query = {"format": str(form)} | ({"interval": "0.5"} if level else {})
        assert file.read_bytes() == service.client.get("/models/cars/versions/1/artefact", params=query).content


def test_a_form_that_is_none_is_refused(service: Service, tmp_path: Path) -> None:
    done = pursuit(service, "artefact", "cars", "--format", "pmml", "--output", tmp_path / "cars.pmml")
    assert done.exit_code != 0
    assert "format" in done.output
    assert not (tmp_path / "cars.pmml").exists()
