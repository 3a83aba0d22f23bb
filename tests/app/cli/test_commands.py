"""The commands against a server that says what it is outcome: what is sent, what is printed, how they end."""

import io
import json
from importlib.metadata import version
from pathlib import Path

import pytest
from rich.console import Console

from app.cli import display
from app.cli.client import Client
from app.cli.options import DEFAULT_URL, repeated_options
from tests.app.cli.run import pursuit
from tests.app.cli.stub import Answer, events, job, problem, stub

REPORT = {
    "rows": 90,
    "basis_size": 12,
    "holdout": {
        "rows": 10,
        "nmse": 0.125,
        "rmse": 2.5,
        "nlpd": 1.75,
        "coverage": {"0.95": 0.9},
        "coverage_standard_error": {"0.95": 0.0689},
    },
    "leave_one_out": {"rows": 100, "nmse": 0.13, "rmse": 2.6, "nlpd": 1.8, "coverage": {"0.95": 0.94}},
    "calibration": {
        "by": "cross-fitting",
        "rows": 1090,
        "latent_scale": 0.91234,
        "noise_scale": 1.0512,
        "most_level": 0.98999,
        "noise_gain": None,
    },
    "columns": [
        {"name": "power", "kind": "number", "missing_replaced_by": 93.5},
        {"name": "built", "kind": "date", "order": "year-first", "cycles": []},
        {"name": "[maker]", "kind": "category", "levels": ["a", "b"], "others_grouped": True},
        {"name": "wheels", "kind": "unused"},
        {"name": "weight", "kind": "number"},
        {"name": "colour", "kind": "category", "levels": ["blue", "red", "white"]},
    ],
    "warnings": ["column 'wheels' is 4 in every row and was left out"],
}
DONE = job("succeeded", result={"model": "cars", "version": 3, "report": REPORT})
TRAINED = {
    ("POST", "/train"): [Answer(body=job("queued"), status=202)],
    ("GET", "/jobs/job_1"): [Answer(body=job("queued"))],
    ("GET", "/jobs/job_1/events"): [events(job("running", progress={"fraction": 0.5, "phase": "fitting"}), DONE)],
}


def test_train_waits_and_reports(table: Path) -> None:
    with stub(dict(TRAINED)) as server:
        result = pursuit("train", table, "--target", "y", "--basis-size", "12", "--spec", '{"seed": 4}', url=server.url)
        (body,) = server.bodies("POST", "/train")
    assert result.exit_code == 0, result.output
    assert b'{"seed": 4, "target": "y", "basis_size": 12}' in body
    for words in ("50%  fitting", "cars version 3", "0.125", "1.75", "note: column 'wheels' is 4"):
        assert words in result.output
    assert "90.0% +- 6.9%" in result.output
    assert " 94.0%\n" in result.output  # as a report of an older release has it
    calibrated = [line for line in result.output.splitlines() if "calibrated" in line]
    assert calibrated == [
        "error bars calibrated by cross-fitting on 1,090 rows: latent variance x 0.912, noise x 1.05; "
        "intervals up to 98.9%"
    ]


def test_train_says_how_the_table_is_read(table: Path) -> None:
    with stub(dict(TRAINED)) as server:
        words = (
            "--decimal",
            ",",
            "--thousands",
            "",
            "--sheet",
            "2",
            "--kernel",
            "matern32",
            "--mean-rows",
            "50",
            "--no-wait",
        )
        assert pursuit("train", table, *words, url=server.url).exit_code == 0
        (body,) = server.bodies("POST", "/train")
    assert b'{"kernel": "matern32", "mean_rows": 50, "decimal": ",", "thousands": "", "sheet": "2"}' in body


def test_a_spec_has_finite_numbers(table: Path) -> None:
    result = pursuit("train", table, "--spec", '{"noise": 1e999}')
    assert result.exit_code == 1
    assert "error: expected finite numbers" in result.stderr


def test_what_comes_next_is_asked_of_the_same_server(table: Path) -> None:
    with stub(dict(TRAINED)) as server:
        typed = pursuit("train", table, "--url", f"{server.url}/", "--key", "a-secret", url="http://127.0.0.1:9")
        known = pursuit("train", table, url=server.url)
    assert f"  pursuit predict cars NEW.csv --url {server.url}/   # predict new rows" in typed.stdout.splitlines()
    assert "  pursuit predict cars NEW.csv   # predict new rows" in known.stdout.splitlines()
    assert "a-secret" not in typed.output


def test_options_of_the_next_command() -> None:
    assert repeated_options(local=True, url="http://h", data_dir=Path("my data")) == " --local --data-dir 'my data'"
    assert repeated_options(local=True, url=DEFAULT_URL, data_dir=None) == " --local"
    assert repeated_options(local=False, url=DEFAULT_URL, data_dir=Path("data")) == ""


READ = [
    "read as number: power (93.5 where missing), weight",
    "read as date: built",
    "read as category: [maker] (2 levels and others), colour (3 levels)",
    "left out: wheels",
]


def test_train_tells_how_columns_were_read(table: Path) -> None:
    with stub(dict(TRAINED)) as server:
        result = pursuit("train", table, url=server.url)
    lines = result.output.splitlines()
    start = lines.index(READ[0])
    assert lines[start : start + len(READ)] == READ
    assert lines[start + len(READ)].startswith("note: ")


def test_train_without_waiting(table: Path) -> None:
    with stub(dict(TRAINED)) as server:
        result = pursuit("train", table, "--no-wait", url=server.url)
    assert result.exit_code == 0
    assert result.output == "job_1 is queued: see `pursuit jobs job_1`\n"


def test_ids_are_not_broken_in_a_narrow_window(table: Path) -> None:
    name = f"job_{'7' * 32}"
    queued = {**job("queued"), "id": name}
    replies = {
        ("POST", "/train"): [Answer(body=queued, status=202)],
        ("GET", "/jobs"): [Answer(body={"jobs": [queued]})],
        ("DELETE", f"/jobs/{name}"): [Answer(body={**queued, "state": "cancelled"})],
    }
    with stub(replies) as server:
        trained = pursuit("train", table, "--no-wait", url=server.url, columns=80)
        listed = pursuit("jobs", url=server.url, columns=80)
        cancelled = pursuit("jobs", name, "--cancel", url=server.url, columns=30)
    assert trained.output == f"{name} is queued: see `pursuit jobs {name}`\n"
    assert name in listed.output
    assert cancelled.output == f"{name} is cancelled\n"


def test_a_failed_job_is_exit_code_1_with_its_reason(table: Path) -> None:
    failed = job("failed", error={"type": "internal", "message": "out of memory"})
    with stub({**TRAINED, ("GET", "/jobs/job_1"): [Answer(body=failed)]}) as server:
        result = pursuit("train", table, url=server.url)
    assert result.exit_code == 1
    assert "error: job job_1 failed: out of memory" in result.stderr


def test_a_refusal_names_the_cells(table: Path) -> None:
    faults = [{"row": 0, "line": 2, "column": "x", "value": "[?]", "message": "not a number"}]
    refusal = problem(422, "column 'x': 21 cells are not numbers", errors=faults, error_count=21)
    with stub({("POST", "/train"): [refusal]}) as server:
        result = pursuit("train", table, url=server.url)
    assert result.exit_code == 1
    assert result.stderr.splitlines() == [
        "error: column 'x': 21 cells are not numbers",
        "  line 2, column x, '[?]': not a number",
        "  ... 21 in all",
    ]


def test_the_version_is_that_of_the_package() -> None:
    result = pursuit("--version")
    assert (result.exit_code, result.output) == (0, f"pursuit {version('pursuit-gp')}\n")


def test_without_a_server_it_says_how_to_get_one(table: Path) -> None:
    result = pursuit("train", table)
    assert result.exit_code == 1
    assert "no answer from http://127.0.0.1:9" in result.stderr
    assert "pursuit serve" in result.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("train", "no-such-file.csv"),
        ("train", __file__, "--spec", "{"),
        ("train", __file__, "--spec", "[]"),
        ("train", __file__, "--spec", '{"a": NaN}'),
        ("train", __file__, "--local", "--no-wait"),
        ("jobs", "--cancel"),
        ("predict", "m", __file__, "--interval", "x"),
        ("predict", "m", __file__, "--interval", "90%"),
        ("predict", "m", __file__, "--interval", ","),
        ("predict", "m", __file__, "--quantile", "0.5,median"),
        ("predict", "m", __file__, "--include", ""),
        ("serve", "--port", "70000"),
        ("nonsense",),
    ],
)
def test_a_wrong_command_line_is_exit_code_2(words: tuple[str, ...]) -> None:
    assert pursuit(*words).exit_code == 2


def test_a_file_that_cannot_be_written(table: Path, tmp_path: Path) -> None:
    place = tmp_path / "no" / "out.csv"
    with stub({("POST", "/predict"): [Answer(body=b"mean,std\n1.5,0.25\n", type="text/csv")]}) as server:
        lost = pursuit("predict", "cars", table, "--output", place, url=server.url)
    assert lost.exit_code == 1
    assert f"error: cannot write {place}: No such file" in lost.output


def test_import_sends_the_file_and_says_what_it_became(tmp_path: Path) -> None:
    file = tmp_path / "model.safetensors"
    file.write_bytes(b"\x00tensors")
    made = Answer(status=201, body={"model": "cars", "version": 4, "sha256": "ab" * 32})
    refused = problem(422, "groups: expected the lengthscale of each column of the schema, from 0 on")
    with stub({("POST", "/models/cars/versions"): [made, refused]}) as server:
        good = pursuit("import", "cars", file, url=server.url)
        bad = pursuit("import", "cars", file, url=server.url)
        sent = server.requests[0]
    assert (good.exit_code, good.stdout) == (0, f"cars@4 is published, sha256 {'ab' * 32}\n")
    assert sent == ("POST", "/models/cars/versions", b"\x00tensors")
    assert bad.exit_code == 1
    assert "groups: expected the lengthscale" in bad.stderr


def test_jobs_are_listed_followed_and_cancelled() -> None:
    answers = {
        ("GET", "/jobs"): [Answer(body={"jobs": [job("running", progress={"fraction": 0.4})], "next_cursor": None})],
        ("GET", "/jobs/job_1"): [Answer(body=DONE)],
        ("DELETE", "/jobs/job_1"): [Answer(body=job("cancelled"))],
    }
    with stub(answers) as server:
        listed = pursuit("jobs", "--state", "running", url=server.url)
        followed = pursuit("jobs", "job_1", url=server.url)
        cancelled = pursuit("jobs", "job_1", "--cancel", url=server.url)
        raw = pursuit("jobs", "--json", url=server.url)
        assert server.requests[0][1] == "/jobs?state=running"
    assert "40%" in listed.output
    assert "cars version 3" in followed.output
    assert cancelled.output == "job_1 is cancelled\n"
    assert json.loads(raw.output)["jobs"][0]["id"] == "job_1"


@pytest.mark.parametrize(
    ("states", "code", "said"),
    [
        (["running", "running", "cancelled"], 0, "job_1 is cancelled\n"),
        (["queued", "cancelled"], 0, "job_1 is cancelled\n"),
        (["running", "succeeded"], 1, "error: job job_1 has succeeded: there is nothing to cancel\n"),
        (["failed"], 1, "error: job job_1 has failed: there is nothing to cancel\n"),
    ],
)
def test_cancelling_says_how_the_job_ended(states: list[str], code: int, said: str) -> None:
    first, *later = [Answer(body=job(state)) for state in states]
    with stub({("DELETE", "/jobs/job_1"): [first], ("GET", "/jobs/job_1"): later}) as server:
        result = pursuit("jobs", "job_1", "--cancel", url=server.url)
    assert (result.exit_code, result.output) == (code, said)


def test_cancelling_does_not_wait_for_ever() -> None:
    running = [Answer(body=job("running"))]
    with stub({("DELETE", "/jobs/job_1"): running, ("GET", "/jobs/job_1"): running}) as server:
        with Client(server.url) as client:
            assert client.wait_for_job(job("running"), seconds=0.15)["state"] == "running"
        raw = pursuit("jobs", "job_1", "--cancel", "--json", url=server.url)
    assert json.loads(raw.output)["state"] == "running"
    out = Console(file=io.StringIO(), width=40)
    display.cancelled(out, job("running"))
    assert isinstance(out.file, io.StringIO)
    assert out.file.getvalue() == "job_1 will be cancelled, and is still running: see `pursuit jobs job_1`\n"


def test_a_url_without_its_scheme_and_one_of_another_server(table: Path) -> None:
    html = [Answer(body=b"<html>", type="text/html")]
    answers = {("GET", "/models"): [Answer(body={"models": []})], ("GET", "/jobs"): html, ("POST", "/predict"): html}
    with stub(answers) as server:
        listed = pursuit("models", "--url", server.url.removeprefix("http://"))
        stranger = pursuit("jobs", url=server.url)
        page = pursuit("predict", "cars", table, url=server.url)
    assert listed.exit_code == 0
    for result in (stranger, page):
        assert result.exit_code == 1
        assert result.output == f"error: {server.url} does not answer like a Pursuit server\n"


def test_models_and_versions_are_listed() -> None:
    summary = {"target": "mpg", "basis_size": 12, "holdout": {"nmse": 0.125, "nlpd": 1.75}}
    version = {"version": 3, "aliases": ["latest", "champion"], "summary": summary, "created_at": "2026-01-02"}
    model = {"name": "cars", "latest": 3, "versions": 2, "created_at": "2026-01-01"}
    answers = {
        ("GET", "/models"): [Answer(body={"models": [model], "next_cursor": "c"})],
        ("GET", "/models/cars"): [Answer(body={**model, "versions": [version], "next_cursor": None})],
    }
    with stub(answers) as server:
        listed = pursuit("models", url=server.url)
        one = pursuit("models", "cars", url=server.url)
    for words in ("cars", "2026-01-01", "there are more"):
        assert words in listed.output
    for words in ("latest, champion", "mpg", "0.125", "1.75"):
        assert words in one.output


VERSION = {
    "model": "cars",
    "version": 3,
    "aliases": ["champion", "latest"],
    "created_at": "2026-01-02",
    "size_bytes": 12345,
    "report": REPORT,
}


@pytest.mark.parametrize("reference", ["cars@3", "cars@champion"])
def test_a_reference_tells_all_about_one_version(reference: str) -> None:
    answers = {
        ("GET", "/models/cars"): [Answer(body={"name": "cars", "aliases": {"latest": 4, "champion": 3}})],
        ("GET", "/models/cars/versions/3"): [Answer(body=VERSION)],
    }
    with stub(answers) as server:
        outcome = pursuit("models", reference, url=server.url)
        raw = pursuit("models", reference, "--json", url=server.url)
    assert outcome.exit_code == 0, outcome.output
    for words in ("cars version 3", "created 2026-01-02, champion, latest; 12,345 bytes", "90.0% +- 6.9%", *READ):
        assert words in outcome.output
    assert json.loads(raw.output) == VERSION


def test_an_alias_that_is_not_there() -> None:
    answers = {("GET", "/models/cars"): [Answer(body={"name": "cars", "aliases": {"latest": 4, "best": 1}})]}
    with stub(answers) as server:
        result = pursuit("models", "cars@champion", url=server.url)
    assert result.exit_code == 1
    assert result.stderr == "error: model 'cars' has no alias 'champion'; it has best, latest\n"


@pytest.mark.parametrize("words", [("models",), ("models", "cars@1"), ("jobs",), ("predict", "cars", __file__)])
@pytest.mark.parametrize("made", [False, True])
def test_reading_commands_make_no_data_directory(words: tuple[str, ...], made: bool, tmp_path: Path) -> None:
    place = tmp_path / "data"
    if made:
        place.mkdir()
    result = pursuit(*words, "--local", "--data-dir", place)
    assert result.exit_code == 1
    assert result.stderr.startswith(f"error: there is no data in {place} (no pursuit.db): ")
    assert "pursuit train FILE --local" in result.stderr
    assert place.exists() == made
    assert not made or list(place.iterdir()) == []


@pytest.mark.parametrize(
    ("way", "flags"),
    [
        (', or to "impute" to integrate over what they may be', "--missing drop, or --missing impute\n"),
        ("", "--missing drop\n"),
    ],
)
def test_missing_cells_are_told_with_the_flag(tmp_path: Path, way: str, flags: str) -> None:
    file = tmp_path / "t.csv"
    file.write_text("a,y\n1,2\n,3\n")
    told = problem(422, f'line 3, column a: missing (empty); set "missing" to "drop" to leave such rows out{way}')
    with stub({("POST", "/train"): [told]}) as server:
        result = pursuit("train", file, "--target", "y", url=server.url)
    assert result.exit_code == 1
    assert f"on the command line: {flags}" in result.stderr
