"""Missing cells over HTTP: integrated over in every form, flagged, refused where training took none."""

import io
import json
import random
from typing import Any

import numpy as np
import pytest

from app.storage import artefact
from tests.app.routes.problems import assert_problem
from tests.app.routes.service import CSV_BODY, QUICK, Service

ROWS = 120
TRAINED: dict[str, Any] = {**QUICK, "basis_size": 60, "target": "y", "missing": "impute", "noise": "constant"}
NULLS: list[dict[str, Any]] = [
    {"a": 0.4, "b": None, "kind": "low", "day": "2024-01-20"},
    {"a": 0.4, "b": 0.1, "kind": "low", "day": "2024-01-20"},
    {"a": None, "b": None, "kind": None, "day": None},
    {"a": 0.4, "b": 0.1, "kind": None, "day": "2024-01-20"},
]
ANSWERED = ("mean", "std", "lower", "upper")


def table(gaps: int, seed: int = 0) -> str:
    """y = a + 5 b + 2 [kind is high] + noise of .1, b missing in so many rows."""
    chance = random.Random(seed)
    lines = ["a,b,kind,day,y"]
    for row in range(ROWS):
        a, b, kind = chance.uniform(-1, 1), chance.uniform(-1, 1), chance.choice(["low", "high"])
        y = a + 5 * b + 2 * (kind == "high") + chance.gauss(0, 0.1)
        shown = "" if row < gaps else repr(b)
        lines.append(f"{a!r},{shown},{kind},2024-{1 + row // 28:02}-{1 + row % 28:02},{y!r}")
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def gaps(service: Service) -> Service:
    """Models of tables with a dozen missing cells and with none, and of the latter where none may be missing."""
    service.train(table(12), model="gaps", **TRAINED)
    service.train(table(0), model="whole", **TRAINED)
    service.train(table(0), model="strict", **{**TRAINED, "missing": "error"})
    return service


@pytest.mark.parametrize("model", ["gaps", "whole"])
def test_what_is_not_known_is_in_the_error_bar(gaps: Service, model: str) -> None:
    found = gaps.ask(model, NULLS, include=["imputed", "latent_std"])
    assert found["imputed"] == [1, 0, 4, 1]
    without_b, known, nothing, without_kind = zip(*(found[name] for name in ANSWERED), strict=True)
    # 5 b, b uniform from -1 to 1, has a deviation of 2.89 and mean 0; a kind that is 0 or 2 one of 1
    assert without_b[:2] == (pytest.approx(0.4, abs=0.5), pytest.approx(2.89, rel=0.1))
    assert without_b[2] < 0.4 - 4.0 < 0.4 + 4.0 < without_b[3]
    assert known[1] < 0.3
    assert without_kind[:2] == (pytest.approx(0.9 + 1.0, abs=0.3), pytest.approx(1.0, rel=0.2))
    assert nothing[1] == pytest.approx(np.sqrt(2.89**2 + 1.0 + 1 / 3), rel=0.1)
    assert all(latent <= std for latent, std in zip(found["latent_std"], found["std"], strict=True))


def test_every_form_gives_the_same(gaps: Service) -> None:
    expected = gaps.ask("gaps", NULLS)
    assert "imputed" not in expected
    assert gaps.ask("gaps", [list(row.values()) for row in NULLS]) == expected
    columns = {name: [row[name] for row in NULLS] for name in NULLS[0]}
    assert gaps.client.post("/predict", json={"model": "gaps", "columns": columns}).json() == expected
    text = "a,b,kind,day\n" + "\n".join(",".join(str(cell or "") for cell in row.values()) for row in NULLS) + "\n"
    assert gaps.client.post("/predict?model=gaps", content=text, headers=CSV_BODY).json() == expected
    lines = "\n".join(map(json.dumps, NULLS))
    answer = gaps.client.post("/predict?model=gaps", content=lines, headers={"content-type": "application/x-ndjson"})
    assert answer.json() == expected
    for row, alone in enumerate(NULLS):
        found = gaps.ask("gaps", [alone])
        assert [found[name][0] for name in ANSWERED] == [expected[name][row] for name in ANSWERED]


def test_a_table_of_numbers_takes_null_in_every_form(gaps: Service) -> None:
    lines = [",".join([*line.split(",")[:2], line.split(",")[-1]]) for line in table(12).splitlines()]
    gaps.train("\n".join(lines) + "\n", model="plain", **TRAINED)
    rows: list[list[float | None]] = [[0.4, None], [0.4, 0.1], [None, None]]
    expected = gaps.ask("plain", rows)
    objects = [{"a": a, "b": b} for a, b in rows]
    assert gaps.ask("plain", objects) == expected
    assert gaps.ask("plain", [["0.4", "NA"], [0.4, "0.1"], [None, ""]]) == expected
    body = io.BytesIO()
    np.save(body, np.array(rows, dtype=np.float64))
    answer = gaps.client.post(
        "/predict?model=plain", content=body.getvalue(), headers={"content-type": "application/x-npy"}
    )
    assert answer.json() == expected
    known = gaps.ask("plain", [rows[1]])
    assert [known[name][0] for name in ANSWERED] == [expected[name][1] for name in ANSWERED]
    problem = gaps.client.post("/predict", json={"model": "plain", "rows": [[0.4, None], [0.4, "x"]]})
    assert_problem(problem, 422, "row 1", "column 'b'")


def test_csv_says_it_unasked_and_only_of_such_rows(gaps: Service) -> None:
    csv = {**CSV_BODY, "accept": "text/csv"}
    text = "a,b,kind,day\n0.4,,low,2024-01-20\n0.4,0.1,low,2024-01-20\n"
    lines = gaps.client.post("/predict?model=gaps", content=text, headers=csv).text.splitlines()
    assert lines[0] == "mean,std,lower,upper,imputed"
    assert [line.split(",")[-1] for line in lines[1:]] == ["1", "0"]
    known = gaps.client.post("/predict?model=gaps", content=text.replace(",,", ",0.2,"), headers=csv).text.splitlines()
    assert known[0] == "mean,std,lower,upper"
    asked = gaps.client.post("/predict?model=gaps&include=imputed", content=text.replace(",,", ",0.2,"), headers=csv)
    assert [line.split(",")[-1] for line in asked.text.splitlines()] == ["imputed", "0", "0"]
    mean = gaps.client.post("/predict?model=gaps&interval=false", content=text, headers=csv).text.splitlines()
    assert mean[0] == "mean,imputed"
    assert [line.split(",")[0] for line in mean[1:]] == [line.split(",")[0] for line in lines[1:]]


def test_npy_says_it_when_it_is_asked(gaps: Service) -> None:
    headers = {**CSV_BODY, "accept": "application/x-npy"}
    text = "a,b,kind,day\n0.4,,low,2024-01-20\n0.4,0.1,low,2024-01-20\n"
    plain = gaps.client.post("/predict?model=gaps", content=text, headers=headers)
    assert plain.headers["x-columns"] == "mean,std,lower,upper"
    asked = gaps.client.post("/predict?model=gaps&include=imputed", content=text, headers=headers)
    assert asked.headers["x-columns"] == "mean,std,lower,upper,imputed"
    assert np.load(io.BytesIO(asked.content))[:, -1].tolist() == [1.0, 0.0]


def test_version_2_has_a_tensor_of_it(gaps: Service) -> None:
    inputs = [
        {"name": "a", "datatype": "FP64", "shape": [2], "data": [0.4, None]},
        {"name": "b", "datatype": "FP64", "shape": [2], "data": [None, None]},
        {"name": "kind", "datatype": "BYTES", "shape": [2], "data": ["low", "low"]},
        {"name": "day", "datatype": "BYTES", "shape": [2], "data": ["2024-01-20", "2024-01-20"]},
    ]
    outputs = [{"name": "mean"}, {"name": "std"}, {"name": "imputed"}]
    answer = gaps.client.post("/v2/models/gaps/infer", json={"inputs": inputs, "outputs": outputs})
    assert answer.status_code == 200, answer.text
    found = {output["name"]: output["data"] for output in answer.json()["outputs"]}
    assert found["imputed"] == [1.0, 2.0]
    expected = gaps.ask("gaps", [NULLS[0]])
    assert (found["mean"][0], found["std"][0]) == (expected["mean"][0], expected["std"][0])


def test_null_is_refused_where_training_was_not_to_take_it(gaps: Service) -> None:
    for row, column in ((NULLS[0], "b"), (NULLS[3], "kind")):
        answer = gaps.client.post("/predict", json={"model": "strict", "rows": [row]})
        problem = assert_problem(answer, 422, "row 0", f"column {column!r}", "missing")
        assert problem["errors"][0]["column"] == column
    known = gaps.ask("strict", [NULLS[1]], include=["imputed"])
    assert known["imputed"] == [0]


def test_other_words_for_a_missing_cell(gaps: Service) -> None:
    gaps.train(table(0), model="coded", **{**TRAINED, "missing_values": [-200, "unknown"]})
    nulls = gaps.ask("coded", [NULLS[0], NULLS[3]])
    assert gaps.ask("coded", [{**NULLS[0], "b": -200}, {**NULLS[3], "kind": "unknown"}]) == nulls


def test_many_rows_take_turns_and_small_ones_go_together(gaps: Service) -> None:
    """More rows than the event loop takes, in turns that are cut otherwise than those of known rows."""
    many = gaps.ask("gaps", [NULLS[0], NULLS[1]] * 400, include=["imputed"])
    few = gaps.ask("gaps", NULLS[:2], include=["imputed"])
    assert many["imputed"] == few["imputed"] * 400
    for name in ANSWERED:
        assert many[name] == few[name] * 400


def test_the_report_says_what_was_done(gaps: Service) -> None:
    facts = gaps.client.get("/models/gaps/versions/1").json()["report"]
    missing = facts["missing"]
    assert (missing["cells"], missing["rows"]) == (12, 12)
    assert missing["columns"] == {"b": {"cells": 12, "treated": "integrated"}}
    assert missing["rows_left_out"] == 12  # b is most of the target
    assert facts["rows"] == ROWS - 12
    assert missing["left_out"]["rows"] == 12
    assert missing["left_out"]["coverage"]["0.95"] >= 0.75  # 3 of 12 outside would be a chance of 1 in 50
    assert [column.get("missing") for column in facts["columns"]] == [*["integrated"] * 4]
    assert any("12 missing cells of column 'b': such rows are predicted by integrating" in w for w in facts["warnings"])
    assert any("12 of 120 rows were not learnt from" in warning for warning in facts["warnings"])
    whole = gaps.client.get("/models/whole/versions/1").json()["report"]["missing"]
    assert (whole["cells"], whole["rows"], whole["left_out"]) == (0, 0, None)
    assert "missing" not in gaps.client.get("/models/strict/versions/1").json()["report"]


def test_a_download_keeps_the_rows_that_values_come_from(gaps: Service) -> None:
    data = gaps.client.get("/models/gaps/versions/1/artefact").content
    stored = artefact.load(data)
    assert stored.donors is not None
    assert stored.donors.shape == (ROWS, 5)
    assert artefact.save(stored) == data
    strict = artefact.load(gaps.client.get("/models/strict/versions/1/artefact").content)
    assert strict.donors is None


def test_known_rows_are_predicted_as_without_impute(gaps: Service) -> None:
    """Nothing was missing in training: the same model, the same bits."""
    known = [NULLS[1], {**NULLS[1], "a": -0.7, "kind": "high"}]
    whole, strict = gaps.ask("whole", known), gaps.ask("strict", known)
    assert [whole[name] for name in ANSWERED] == [strict[name] for name in ANSWERED]


def test_cells_whose_being_missing_says_something_are_marked(gaps: Service) -> None:
    """c hardly matters, but where it is missing y is 30 higher: a column of its own says so, to the model too."""
    chance = random.Random(3)
    lines = ["c," + table(0).splitlines()[0]]
    for row, line in enumerate(table(0).splitlines()[1:]):
        rest, y = line.rsplit(",", 1)
        shown = "" if row < 30 else repr(chance.uniform(-1, 1))
        lines.append(f"{shown},{rest},{float(y) + 30.0 * (row < 30)!r}")
    gaps.train("\n".join(lines) + "\n", model="marked", **TRAINED)
    report = gaps.client.get("/models/marked/versions/1").json()["report"]
    assert report["missing"]["columns"] == {"c": {"cells": 30, "treated": "marked"}}
    found = gaps.ask("marked", [{**NULLS[1], "c": None}, {**NULLS[1], "c": 0.1}], include=["imputed"])
    assert found["imputed"] == [1, 0]
    assert found["mean"][0] > 20.0 > found["mean"][1]


def test_rows_that_lie_elsewhere_than_a_missing_value_explains_are_shifted(gaps: Service) -> None:
    """b is most of the target, and y is 30 higher where it is missing: known rows learn nothing of that."""
    lines = table(0, seed=3).splitlines()
    truths = []
    for row in range(1, 41):
        a, _, kind, day, y = lines[row].split(",")
        truths.append(float(y) + 30.0)
        lines[row] = f"{a},,{kind},{day},{truths[-1]!r}"
    gaps.train("\n".join(lines) + "\n", model="shifted", **TRAINED)
    report = gaps.client.get("/models/shifted/versions/1").json()["report"]
    assert report["missing"]["columns"] == {"b": {"cells": 40, "treated": "integrated and shifted"}}
    assert report["rows"] == ROWS - 40
    assert report["missing"]["left_out"]["coverage"]["0.95"] > 0.85  # 6 of 40 outside: a chance of 1 in 70
    found = gaps.ask("shifted", NULLS[:2])
    assert found["mean"][0] == pytest.approx(30.4, abs=2.0)
    assert found["std"][0] == pytest.approx(2.89, rel=0.2)
    assert found["mean"][1] < 5.0
    mean = gaps.ask("shifted", NULLS[:2], interval=False)["mean"]
    assert mean == pytest.approx(found["mean"], rel=1e-12)
