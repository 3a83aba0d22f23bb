"""`POST /predict` with a form, as pages and `curl -F file=@new.csv` send one."""

import random
import shutil
import subprocess
from pathlib import Path

import pytest

from app.routes.predict import SMALL_BYTES
from tests.app.routes.problems import assert_problem
from tests.app.routes.service import CSV_BODY, Service

TABLE = "x,kind,note\n1.0,low,a\n2.0,high,b\n"


def form(text: str) -> dict[str, tuple[str, str]]:
    return {"file": ("new.csv", text)}


def test_a_form_is_answered_as_the_file_in_it(service: Service) -> None:
    options = {"interval": "0.5,0.9", "quantiles": "0.1", "include": "median", "keep": "all"}
    query = {"model": "waves", **options}
    as_file = service.client.post("/predict", params=query, content=TABLE, headers=CSV_BODY).json()
    assert as_file["columns"]["note"] == ["a", "b"]
    assert service.client.post("/predict", data=query, files=form(TABLE)).json() == as_file
    assert service.client.post("/predict", params=query, files=form(TABLE)).json() == as_file
    mixed = service.client.post("/predict", params=options, data={"model": "waves"}, files=form(TABLE))
    assert mixed.json() == as_file


def test_another_form_of_the_answer(service: Service) -> None:
    answer = service.client.post("/predict", data={"model": "waves"}, files=form(TABLE), headers={"accept": "text/csv"})
    assert answer.text.startswith("note,mean,std,lower,upper\na,")


def test_a_large_file_goes_by_way_of_the_disk(service: Service) -> None:
    source = random.Random(1)
    line = f"{'n' * 200}\n"
    rows = SMALL_BYTES // len(line) + 100
    text = "x,kind,note\n" + "".join(f"{source.uniform(0, 6):.3f},low,{line}" for _ in range(rows))
    assert len(text) > SMALL_BYTES
    query = {"model": "waves", "interval": "false"}
    answer = service.client.post("/predict", data=query, files=form(text))
    assert answer.status_code == 200, answer.text
    assert answer.json() == service.client.post("/predict", params=query, content=text, headers=CSV_BODY).json()


@pytest.mark.parametrize(
    ("data", "files", "words"),
    [
        ({}, form(TABLE), ("there is no model", "part of the form")),
        (
            {"model": "waves", "intervals": "0.5"},
            form(TABLE),
            ("unknown form part 'intervals'", "`interval`", "`keep`"),
        ),
        ({"model": "waves", "interval": "wide"}, form(TABLE), ("interval: expected a number, got 'wide'",)),
        ({"model": "waves"}, {"table": ("new.csv", TABLE)}, ("unknown form part 'table'", "`file`")),
        ({"model": "waves"}, form("x,kind\nmuch,low\n"), ("'much'", "'x'")),
    ],
)
def test_what_is_wrong_is_named(
    service: Service, data: dict[str, str], files: dict[str, tuple[str, str]], words: tuple[str, ...]
) -> None:
    assert_problem(service.client.post("/predict", data=data, files=files), 422, *words)


def test_fields_without_a_file(service: Service) -> None:
    assert_problem(service.client.post("/predict", data={"model": "waves"}), 422, "there is no file", "`file`")
    assert_problem(service.client.post("/predict", files={"model": (None, "waves")}), 422, "there is no file")
    answer = service.client.post("/predict", params={"model": "nothing"}, files=form(TABLE))
    assert_problem(answer, 404, "nothing")


@pytest.mark.skipif(shutil.which("curl") is None, reason="no curl on this machine")
def test_curl(service: Service, tmp_path: Path) -> None:
    (tmp_path / "new.csv").write_text(TABLE)
    address = f"{service.client.base_url}/predict"
    command = ["curl", "-s", "-F", "file=@new.csv", "-F", "model=waves", "-H", "Accept: text/csv", address]
    done = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines()[0] == "note,mean,std,lower,upper"
    assert len(done.stdout.splitlines()) == 3
