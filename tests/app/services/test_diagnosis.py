"""Findings of `pursuit doctor` on real databases and folders; it makes nothing."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from app.cli.commands import cli
from app.database.engine import Database
from app.services.diagnosis import diagnose
from app.settings import Settings
from tests.ports import free_port


def states(found: dict[str, Any]) -> dict[str, str]:
    """States by check, the worst of those with one name."""
    order = ("ok", "warning", "error")
    result: dict[str, str] = {}
    for check in found["checks"]:
        result[check["name"]] = max(result.get(check["name"], "ok"), check["state"], key=order.index)
    return result


def said(found: dict[str, Any], name: str) -> str:
    return " ".join(f"{check['detail']} {check['hint']}" for check in found["checks"] if check["name"] == name)


def settings(folder: Path, **more: Any) -> Settings:
    return Settings(data_dir=folder / "data", **more)


def test_a_folder_without_anything_is_well_and_stays_so(tmp_path: Path) -> None:
    found = diagnose(settings(tmp_path), {})
    assert found["ok"]
    assert {"settings", "database", "store", "blas", "threads", "files", "disk", "memory", "clock"} <= {*states(found)}
    assert "not there yet" in said(found, "database")
    assert list(tmp_path.iterdir()) == []


def test_a_database_that_is_not_migrated_and_one_that_is(tmp_path: Path) -> None:
    own = settings(tmp_path)
    own.data_dir.mkdir()
    (own.data_dir / "pursuit.db").touch()
    found = diagnose(own, {})
    assert not found["ok"]
    assert "pursuit migrate" in said(found, "database")
    with Database(own.database) as database:
        database.migrate()
    found = diagnose(own, {})
    assert (found["ok"], states(found)["database"], states(found)["clock"]) == (True, "ok", "ok")
    assert "is migrated" in said(found, "database")
    assert "agrees with the database's" in said(found, "clock")


def test_a_database_that_does_not_answer_is_named_without_its_password(tmp_path: Path) -> None:
    pytest.importorskip("psycopg")
    url = f"postgresql://me:secret@127.0.0.1:{free_port()}/none"
    found = diagnose(settings(tmp_path, database_url=url), {"PURSUIT_DATABASE_URL": url})
    assert states(found)["database"] == "error"
    assert "secret" not in json.dumps(found)
    (shown,) = [one for one in found["settings"] if one["name"] == "PURSUIT_DATABASE_URL"]
    assert shown["source"] == "PURSUIT_DATABASE_URL"


def test_a_store_that_cannot_be_written(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    assert states(diagnose(settings(tmp_path, artefact_url=str(file / "blobs")), {}))["store"] == "error"
    assert states(diagnose(settings(tmp_path, artefact_url=str(file)), {}))["store"] == "error"
    (tmp_path / "blobs").mkdir()
    assert "can be written" in said(diagnose(settings(tmp_path, artefact_url=str(tmp_path / "blobs")), {}), "store")


def test_an_open_address_without_a_key(tmp_path: Path) -> None:
    own = settings(tmp_path, host="0.0.0.0")
    own.data_dir.mkdir()
    with Database(own.database) as database:
        database.migrate()
    found = diagnose(own, {})
    assert (found["ok"], states(found)["keys"]) == (False, "error")
    assert states(diagnose(own.model_copy(update={"insecure": True}), {}))["keys"] == "warning"
    created = CliRunner().invoke(cli, ["keys", "create", "--scope", "predict", "--data-dir", str(own.data_dir)])
    assert created.exit_code == 0
    assert states(diagnose(own, {}))["keys"] == "ok"


def test_threads_beyond_the_cores_and_a_setting_that_is_none(tmp_path: Path) -> None:
    found = diagnose(settings(tmp_path, workers=64, threads=64), {"PURSUIT_WORKER": "2"})
    assert (states(found)["threads"], states(found)["settings"], found["ok"]) == ("warning", "warning", True)
    assert "PURSUIT_WORKER is no setting did you mean PURSUIT_WORKERS?" in said(found, "settings")


def test_the_command_ends_with_1_where_something_is_wrong(tmp_path: Path) -> None:
    own = tmp_path / "data"
    own.mkdir()
    (own / "pursuit.db").touch()
    runner = CliRunner()
    shown = runner.invoke(cli, ["doctor", "--data-dir", str(own)], env={"COLUMNS": "100"})
    assert shown.exit_code == 1
    assert "error   database" in shown.stdout
    assert "command line" in shown.stdout
    document = runner.invoke(cli, ["doctor", "--json", "--data-dir", str(own)])
    assert document.exit_code == 1
    assert json.loads(document.stdout)["ok"] is False
    good = runner.invoke(cli, ["doctor", "--json", "--data-dir", str(tmp_path / "other")])
    assert (good.exit_code, json.loads(good.stdout)["ok"]) == (0, True)
    wrong = runner.invoke(cli, ["doctor", "--json"], env={"PURSUIT_PORT": "99999"})
    assert wrong.exit_code == 2
    assert "PURSUIT_PORT" in json.loads(wrong.stdout)["error"]["message"]
