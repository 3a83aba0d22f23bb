"""`GET /models/{name}/versions/{v}/report` and `pursuit report`: one page about a version."""

import json
import re
from pathlib import Path

from typer.testing import CliRunner, Result

from app.cli.commands import cli
from tests.app.report.test_page import checked
from tests.app.routes.problems import assert_problem
from tests.app.routes.service import Service


def pursuit(service: Service, *words: object) -> Result:
    env = {"PURSUIT_URL": str(service.client.base_url), "COLUMNS": "120"}
    return CliRunner().invoke(cli, [str(word) for word in words], env=env)


def test_a_version_has_a_report(service: Service) -> None:
    answer = service.client.get("/models/waves/versions/1/report")
    assert answer.headers["content-type"].startswith("text/html")
    assert checked(answer.text).count("figure") >= 4
    rmse = service.client.get("/models/waves/versions/1").json()["report"]["holdout"]["rmse"]
    assert f"± {rmse:.3g} (RMSE on" in answer.text
    assert_problem(service.client.get("/models/waves/versions/9/report"), 404)


def test_the_command_by_server_and_by_file(service: Service, tmp_path: Path) -> None:
    page, own, artefact = tmp_path / "a.html", tmp_path / "b.html", tmp_path / "waves.safetensors"
    made = pursuit(service, "report", "waves@latest", "-o", page, "--json")
    assert json.loads(made.stdout) == {
        "model": "waves", "version": 1, "output": str(page), "size_bytes": page.stat().st_size
    }  # fmt: skip
    assert page.read_text() == service.client.get("/models/waves/versions/1/report").text
    assert pursuit(service, "artefact", "waves", "-o", artefact).exit_code == 0
    assert pursuit(service, "report", artefact, "-o", own).exit_code == 0
    plots = [re.findall("<svg.*?</svg>", path.read_text(), re.DOTALL) for path in (page, own)]
    assert plots[0] == plots[1]
    assert pursuit(service, "report", "waves", "-o", "-").stdout == page.read_text()
    assert pursuit(service, "report", "none", "-o", page).exit_code == 1
    lost = pursuit(service, "report", "waves", "-o", tmp_path / "no" / "c.html")
    assert lost.stderr == f"error: cannot write {tmp_path / 'no' / 'c.html'}: No such file or directory\n"
