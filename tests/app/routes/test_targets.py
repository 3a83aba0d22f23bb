"""Several targets over HTTP: one version predicts all of them, each in its unit, in every form of an answer."""

import io
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.app.routes.problems import assert_problem
from tests.app.routes.service import CSV_BODY, Service, running

SPEC: dict[str, Any] = {"basis_size": 20, "adapt": {"rounds": 1, "steps": 6}, "noise": "constant", "calibrate": "loo"}
ROWS = [[0.25, -0.5], [0.5, 0.75], [-0.125, 0.0]]
NAMES = ["y1", "y2", "other"]


def table(count: int = 150) -> str:
    """y2 is ten times y1; `other` is of its own, and missing in 30 rows."""
    random = np.random.default_rng(0)
    a, b = random.uniform(-1.0, 1.0, (2, count))
    y = np.sin(3.0 * a) + b + 0.2 * random.standard_normal(count)
    other = [f"{value!r}" for value in (a * b + 0.1 * random.standard_normal(count)).tolist()]
    other[:30] = [""] * 30
    lines = (
        f"{p!r},{q!r},{v!r},{10.0 * v!r},{w}"
        for p, q, v, w in zip(*map(list, (a.tolist(), b.tolist(), y.tolist())), other, strict=True)
    )
    return "a,b,y1,y2,other\n" + "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """`all`, of three targets; `pair`, by a pattern; `one`, a list of one; `y1` and `plain` of one target as ever."""
    with running(tmp_path_factory.mktemp("service")) as service:
        for model, target in (("all", NAMES), ("pair", "y*"), ("one", ["y1"]), ("plain", "y1")):
            job = service.train(table(), model=model, target=target, features=["a", "b"], **SPEC)
            assert job["state"] == "succeeded", job
        yield service


def test_an_answer_has_an_object_by_target(trained: Service) -> None:
    found = trained.ask("all", ROWS, interval=[0.5, 0.95], quantiles=[0.1], include=["median", "imputed"])
    for field in ("mean", "std", "median"):
        assert list(found[field]) == NAMES
        assert [len(found[field][name]) for name in NAMES] == [3, 3, 3]
    assert found["interval"] == [0.5, 0.95]
    assert found["imputed"] == [0, 0, 0]
    assert [len(ends) for ends in found["lower"]["other"]] == [3, 3]
    assert list(found["interval_basis"]["y1"]) == ["conformal", "conformal"]
    assert len(found["quantile_values"]["y2"][0]) == 3


def test_ten_times_the_target_is_ten_times_the_answer(trained: Service) -> None:
    found = trained.ask("all", ROWS)
    for field in ("mean", "std", "lower", "upper"):
        np.testing.assert_allclose(found[field]["y2"], 10.0 * np.array(found[field]["y1"]), rtol=1e-8, atol=1e-9)


def test_a_pattern_names_several_and_a_list_of_one_is_answered_like_several(trained: Service) -> None:
    assert list(trained.ask("pair", ROWS)["mean"]) == ["y1", "y2"]
    one, plain = trained.ask("one", ROWS), trained.ask("plain", ROWS)
    assert one["mean"] == {"y1": plain["mean"]}
    assert one["std"] == {"y1": plain["std"]}


def test_means_alone_and_many_rows_are_by_target_too(trained: Service) -> None:
    many = trained.ask("all", ROWS * 1000, interval=False)
    few = trained.ask("all", ROWS)
    assert list(many) == ["model", "version", "mean"]
    assert many["mean"]["other"][-3:] == few["mean"]["other"]


def test_files_have_a_column_for_each(trained: Service) -> None:
    csv = "id,a,b,y1\n" + "".join(f"r{place},{a},{b},7\n" for place, (a, b) in enumerate(ROWS))
    expected = trained.ask("all", ROWS)
    for accept in ("text/csv", "application/vnd.apache.parquet", "application/x-npy"):
        answer = trained.client.post("/predict?model=all", content=csv, headers={**CSV_BODY, "accept": accept})
        assert answer.status_code == 200, answer.text
        if accept == "text/csv":
            head, *lines = answer.text.splitlines()
            assert head.split(",") == [
                "id",
                *(f"{name}_{what}" for name in NAMES for what in ("mean", "std", "lower", "upper")),
            ]
            assert [float(line.split(",")[5]) for line in lines] == expected["mean"]["y2"]
        elif accept == "application/x-npy":
            names = answer.headers["x-columns"].split(",")
            matrix = np.load(io.BytesIO(answer.content))
            assert matrix[:, names.index("other_std")].tolist() == expected["std"]["other"]
        else:
            found = pq.read_table(io.BytesIO(answer.content))
            assert found.column("other_mean").to_pylist() == expected["mean"]["other"]


def test_the_protocol_has_an_output_for_each(trained: Service) -> None:
    tensor = {"name": "rows", "shape": [3, 2], "datatype": "FP64", "data": [cell for row in ROWS for cell in row]}
    expected = trained.ask("all", ROWS)
    outputs = [output["name"] for output in trained.client.get("/v2/models/all").json()["outputs"]]
    assert outputs[:4] == ["y1.mean", "y1.std", "y1.lower", "y1.upper"]
    answer = trained.client.post("/v2/models/all/infer", json={"inputs": [tensor]}).json()
    assert {output["name"]: output["data"] for output in answer["outputs"]}["y2.upper"] == expected["upper"]["y2"]
    asked = {"inputs": [tensor], "outputs": [{"name": "other.mean"}]}
    (only,) = trained.client.post("/v2/models/all/infer", json=asked).json()["outputs"]
    assert (only["name"], only["data"]) == ("other.mean", expected["mean"]["other"])
    wrong = trained.client.post("/v2/models/all/infer", json=asked | {"outputs": [{"name": "mean"}]})
    assert wrong.status_code == 422
    assert "y1.mean" in wrong.text


def test_the_report_tells_rows_scores_sharing_and_correlation_by_target(trained: Service) -> None:
    job = trained.client.get("/jobs?model=all").json()["jobs"][0]
    report = trained.client.get(f"/jobs/{job['id']}").json()["result"]["report"]
    assert report["target_names"] == NAMES
    assert [report["targets"][name]["rows"] for name in NAMES] == [150, 150, 120]
    assert report["targets"]["y1"]["sharing"]["with"] == ["y2"]
    assert report["targets"]["other"]["sharing"]["with"] == []
    assert "30 of 150 rows have no value of the target 'other'" in report["targets"]["other"]["warnings"]
    correlation = np.array(report["error_correlation"]["correlation"], np.float64)
    assert correlation[0, 1] == pytest.approx(1.0)
    assert abs(correlation[0, 2]) < 0.5
    assert "targets" not in report["targets"]["y1"]


def test_a_version_shows_each_target(trained: Service) -> None:
    first = trained.client.get("/models/all/versions/1").json()
    other = trained.client.get("/models/all/versions/1?target=other").json()
    assert first["targets"] == other["targets"] == NAMES
    assert (first["target"], other["target"]) == ("y1", "other")
    assert first["report"]["rows"] > other["report"]["rows"]
    assert trained.client.get("/models/plain/versions/1").json()["targets"] == ["y1"]
    rows = trained.client.get("/models/all/versions/1/held-out?target=y2").json()
    assert rows["name"] == "y2"
    assert trained.client.get("/models/all/versions/1/importance?target=other").status_code == 200
    assert "other" in trained.client.get("/models/all/versions/1/report?target=other").text
    missing = trained.client.get("/models/all/versions/1?target=y9")
    assert missing.status_code == 404
    assert "'y1', 'y2', 'other'" in missing.text
    assert trained.client.get("/models").json()["models"][0]["summary"]["target_names"] == NAMES


@pytest.mark.parametrize(
    ("target", "more", "said"),
    [
        (["y1", "y9"], {}, "there is no column 'y9'"),
        ("q*", {}, "no column matches 'q*'"),
        (["y1", "level"], {}, "the target 'level' is 5.0 in every row"),
        (["y1", "word"], {}, "the target 'word' is text"),
        (["y1", "void"], {}, "the target 'void' has no value in any row"),
        ([], {}, "target: expected the name of a column, or a list of names"),
        (["y1", "y1"], {}, "each once"),
        (["y1", "y2"], {"features": ["a", "y2"]}, "features: 'y2' is the target"),
        (["y1", "y2"], {"share": "some"}, "share: expected"),
        (["y1", "y2"], {"share": True, "refine": True}, "share: basis vectors move for one target"),
        (["y1", "y2"], {"order": "y2"}, "order: 'y2' is one of the targets"),
        (["y1", "y2"], {"order": "y1"}, "order: 'y1' is one of the targets"),
        (["y1", "y2"], {"groups": "y2"}, "groups: 'y2' is one of the targets"),
        (["y1", "y2"], {"groups": "y1"}, "groups: 'y1' is one of the targets"),
        ("y1", {"groups": "y1", "features": ["a"]}, "groups: 'y1' is the target"),
        (["y1", "y2"], {"unseen": "prior"}, "unseen: an unseen category is answered for one target"),
    ],
)
def test_what_is_wrong_with_a_target_is_named(trained: Service, target: Any, more: dict[str, Any], said: str) -> None:
    rows = "".join(f"{a},{a * a},{a + 1},{2 * a},5,{'ab'[a % 2]},\n" for a in range(30))
    answer = trained.post_file(f"a,b,y1,y2,level,word,void\n{rows}", {"target": target, "model": "wrong", **more})
    assert_problem(answer, 422, said)


def test_cells_that_only_targets_lack_are_imputed_by_nobody(trained: Service) -> None:
    """`other` lacks 30 cells: with `impute` as without; a column that lacks one is named, and no other."""
    spec: dict[str, Any] = {**SPEC, "model": "holes", "target": ["y1", "other"], "missing": "impute"}
    job = trained.train(table(), **spec, features=["a", "b"])
    assert job["state"] == "succeeded", job
    refused = trained.client.post("/predict", json={"model": "holes", "rows": [[None, 0.5]]})
    assert_problem(refused, 422, "'a'")
    first, *lines = table().splitlines()
    lines[40] = "," + lines[40].partition(",")[2]
    problem = assert_problem(trained.post_file("\n".join([first, *lines]), spec), 422, "missing", "cells of 'a' are")
    assert "'b'" not in problem["detail"]


def test_an_explanation_is_of_the_target_that_is_named(trained: Service) -> None:
    """Baseline and parts of each target's own model, whose mean they add up to."""
    means = trained.ask("all", ROWS)["mean"]
    for target in (*NAMES, "y1"):  # one after the other: explainers are kept by target
        found = trained.client.post("/models/all/explain", json={"rows": ROWS, "target": target}).json()
        assert found["target"] == target
        for row, mean in zip(found["rows"], means[target], strict=True):
            assert row["mean"] == mean
            added = found["baseline"] + sum(part["part"] for part in row["parts"])
            assert added == pytest.approx(mean, rel=1e-6, abs=1e-6)
    one, plain = (
        trained.client.post(f"/models/{name}/explain", json={"rows": ROWS}).json() for name in ("one", "plain")
    )
    assert one["rows"] == plain["rows"]


def test_suggestions_are_for_the_target_that_is_named(trained: Service) -> None:
    for target in NAMES:
        asked = {"rows": [{"a": a, "b": b} for a, b in ROWS], "count": 2, "target": target, "criterion": "improvement"}
        found = trained.client.post("/models/all/suggest", json=asked).json()
        assert found["target"] == target
        expected = trained.ask("all", ROWS)
        for one in found["suggestions"]:
            assert one["mean"] == pytest.approx(expected["mean"][target][one["number"]], rel=1e-9)
            assert one["std"] == pytest.approx(expected["std"][target][one["number"]], rel=1e-9)
    plain = trained.client.post("/models/plain/suggest", json={"ranges": {}, "count": 2, "target": "y1"}).json()
    one = trained.client.post("/models/one/suggest", json={"ranges": {}, "count": 2}).json()
    assert one["suggestions"] == plain["suggestions"]


def test_a_table_is_scored_by_target(trained: Service) -> None:
    lines = table().splitlines()
    for place, target in enumerate(NAMES):
        answer = trained.client.post(f"/evaluate?model=all&target={target}&worst=1", content=table(), headers=CSV_BODY)
        assert answer.status_code == 200, answer.text
        found = answer.json()
        cells = [line.split(",") for line in lines[1:] if line.split(",")[2 + place]]
        assert (found["target"], found["rows"]) == (target, len(cells))
        assert found["rows_without_truth"] == 150 - len(cells)
        means = trained.ask("all", [[float(cell) for cell in row[:2]] for row in cells], interval=False)["mean"][target]
        truth = np.array([float(row[2 + place]) for row in cells])
        assert found["scores"]["rmse"] == pytest.approx(float(np.sqrt(np.mean(np.square(truth - means)))), rel=1e-9)
        assert found["scores"]["coverage"]["0.95"] > 0.8


def test_which_of_several_targets_has_to_be_said(trained: Service) -> None:
    asked: dict[str, dict[str, Any]] = {
        "explain": {"rows": ROWS},
        "suggest": {"ranges": {}, "count": 1},
    }
    for target, said in (({}, "got none"), ({"target": "y9"}, "got 'y9'")):
        for path, body in asked.items():
            answer = trained.client.post(f"/models/all/{path}", json=body | target)
            assert_problem(answer, 422, f"target: expected one of 'y1', 'y2', 'other'; {said}")
        query = {"model": "all", **target}
        answer = trained.client.post("/evaluate", params=query, content=table(), headers=CSV_BODY)
        assert_problem(answer, 422, f"target: expected one of 'y1', 'y2', 'other'; {said}")
    wrong = trained.client.post("/models/plain/explain", json={"rows": ROWS, "target": "y2"})
    assert_problem(wrong, 422, "target: expected one of 'y1'; got 'y2'")
