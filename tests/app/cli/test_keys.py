"""`pursuit keys` on a data directory, and the key that the client commands send."""

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from app.cli.client import Client, ClientError
from app.cli.commands import cli
from tests.app.cli.stub import Answer, problem, stub

MODELS = {("GET", "/models"): [Answer(body={"models": [], "next_cursor": None})]}


@pytest.fixture(autouse=True)
def _no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PURSUIT_API_KEY", raising=False)


def pursuit(*words: str | Path, **environment: str) -> Result:
    return CliRunner().invoke(cli, [str(word) for word in words], env={"COLUMNS": "200", **environment})


def test_create_list_revoke_and_audit(tmp_path: Path) -> None:
    here = ("--data-dir", tmp_path)
    words = ("--scope", "predict,train", "--models", "cars,vans", "--name", "dashboard", "--expires", "90d")
    assert str(tmp_path / "pursuit.db") in pursuit("keys", "list", *here).stdout, "which database has none"
    made = pursuit("keys", "create", *words, "--requests-per-minute", "60", *here)
    assert made.exit_code == 0, made.output
    token = made.stdout.strip()
    assert re.fullmatch(r"pk_[0-9a-f]{16}_[0-9a-f]{64}", token), "the token alone, for scripts"
    assert "shown once" in made.stderr
    key_id = token.split("_")[1]
    (listed,) = json.loads(pursuit("keys", "list", "--json", *here).stdout)
    ends = (datetime.now(UTC) + timedelta(days=90)).date().isoformat()
    assert listed.pop("created_at").startswith(datetime.now(UTC).date().isoformat())
    assert listed.pop("expires_at").startswith(ends)
    unlimited = dict.fromkeys(("rows_per_minute", "queued_jobs", "stored_bytes"))
    assert listed == {
        "id": key_id,
        "name": "dashboard",
        "scopes": ["predict", "train"],
        "models": ["cars", "vans"],
        "limits": {"requests_per_minute": 60, **unlimited},
        "created_by": None,
        "revoked_at": None,
    }
    other = json.loads(pursuit("keys", "create", "--scope", "admin", "--json", *here).stdout)
    assert (other["scopes"], other["models"], other["expires_at"]) == (["admin"], None, None)
    assert other["token"].startswith(f"pk_{other['id']}_")
    shown = pursuit("keys", "list", *here).stdout
    assert [word in shown for word in ("predict,train", "cars,vans", ends, "never", "live")] == [True] * 5
    assert token.rpartition("_")[2] not in "".join(p.read_text("latin-1") for p in tmp_path.iterdir() if p.is_file())
    assert pursuit("keys", "revoke", token, *here).stdout == f"key {key_id} is revoked\n"
    again = pursuit("keys", "revoke", token, *here)
    assert (again.exit_code, "was revoked before, at 20" in again.stdout) == (0, True)
    assert "revoked" in pursuit("keys", "list", *here).stdout
    log = pursuit("keys", "audit", *here).stdout
    assert [word in log for word in ("create-key", "revoke-key", "command line", key_id)] == [True] * 4
    assert "name=dashboard scopes=predict,train" in log
    assert log.count("revoke-key") == 1
    assert pursuit("keys", "audit", "--usage", *here).exit_code == 0


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("create",), 2, "--scope"),
        (("create", "--scope", "root"), 2, "'root'"),
        (("create", "--scope", "predict", "--expires", "soon"), 2, "90d"),
        (("create", "--scope", "predict", "--expires", "2001-01-01"), 2, "over"),
        (("create", "--scope", "predict", "--models", "a/b"), 1, "models"),
        (("revoke", "0123456789abcdef"), 1, "there is no API key"),
        (("audit", "--key-id", "x"), 1, "key"),
    ],
)
def test_what_cannot_be(tmp_path: Path, words: tuple[str, ...], code: int, said: str) -> None:
    result = pursuit("keys", *words, "--data-dir", tmp_path)
    assert result.exit_code == code, result.output
    assert said in result.output
    assert "Traceback" not in result.output


def test_the_commands_send_the_key() -> None:
    with stub(dict(MODELS)) as server:
        pursuit("models", PURSUIT_URL=server.url)
        pursuit("models", PURSUIT_URL=server.url, PURSUIT_API_KEY="pk_a_b")
        pursuit("models", "--key", "pk_c_d", PURSUIT_URL=server.url, PURSUIT_API_KEY="pk_a_b")
        with Client(server.url, key="pk_e_f") as client:
            client.models()
    assert [headers.get("authorization") for headers in server.headers] == [
        None,
        "Bearer pk_a_b",
        "Bearer pk_c_d",
        "Bearer pk_e_f",
    ]


def test_a_key_that_no_header_holds_is_not_shown() -> None:
    result = pursuit("models", PURSUIT_API_KEY="pk_se\ncret")
    assert result.exit_code == 1
    assert "cret" not in result.output
    with pytest.raises(ClientError, match="letters"):
        Client("http://127.0.0.1:9", key="pk_\N{SNOWMAN}")


def test_a_refusal_says_how_to_send_one() -> None:
    with stub({("GET", "/models"): [problem(401, "an API key is needed")]}) as server:
        result = pursuit("models", PURSUIT_URL=server.url)
    assert "PURSUIT_API_KEY or --key" in result.output


def test_a_refusal_of_the_key_that_was_sent_says_so() -> None:
    with stub({("GET", "/models"): [problem(401, "the API key is not valid: it expired")]}) as server:
        result = pursuit("models", PURSUIT_URL=server.url, PURSUIT_API_KEY="pk_a_b")
    assert "send one" not in result.output
    assert "that is the key of PURSUIT_API_KEY or --key" in result.output
