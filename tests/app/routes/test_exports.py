"""Exported models over HTTP: as ONNX and as a file for numpy they predict what the server does: on 1,000 rows, the slow
cases on 10,000."""

import json
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from tests.app.routes.exported import by_numpy, by_onnx, by_server, differences, download
from tests.app.routes.problems import assert_problem
from tests.app.routes.service import Service, running

ROWS = 1_000
CLOSE = 1e-6
QUICK: dict[str, Any] = {"basis_size": 40, "noise": "constant", "holdout": 0, "adapt": {"rounds": 1, "steps": 4}}
FULL: dict[str, Any] = {**QUICK, "effort": "normal", "variance": "near"}

Table = dict[str, list[Any]]


def numbers(rows: int, seed: int) -> Table:
    """Two numbers of very different size, noise that grows with one of them."""
    chance = np.random.default_rng(seed)
    a, b = chance.uniform(-2, 2, rows), 300 * chance.normal(size=rows) + 1e4
    y = np.sin(2 * a) + 0.004 * (b - 1e4) + 0.05 * np.exp(0.7 * a) * chance.normal(size=rows)
    return {"a": a.tolist(), "b": b.tolist(), "y": (100 * y).tolist()}


def skewed(rows: int, seed: int) -> Table:
    table = numbers(rows, seed)
    return table | {"y": np.exp(0.01 * np.array(table["y"])).tolist()}


def tails(rows: int, seed: int) -> Table:
    """A number without a tail, one with a long tail of large values, and one with a tail to the other side."""
    chance = np.random.default_rng(seed)
    a, b, c = chance.uniform(-2, 2, rows), np.exp(1.5 * chance.normal(size=rows)), -np.exp(chance.normal(size=rows))
    y = a + np.log1p(b) + 0.3 * c + 0.05 * np.exp(0.7 * a) * chance.normal(size=rows)
    return {"a": a.tolist(), "b": b.tolist(), "c": c.tolist(), "y": y.tolist()}


def shares(rows: int, seed: int) -> Table:
    table = numbers(rows, seed)
    return table | {"y": (1.0 / (1.0 + np.exp(-0.05 * np.array(table["y"])))).tolist()}


def mixed(rows: int, seed: int) -> Table:
    """A number, categories of texts and of codes, a boolean, dates that matter by the hour, integers past 2^53."""
    chance = np.random.default_rng(seed)
    a, kind, code = (
        chance.uniform(-2, 2, rows),
        chance.choice(["low", "high", 'é, "x"'], rows),
        chance.choice([1, 2, 30], rows),
    )
    flag, minute = chance.random(rows) < 0.4, chance.integers(0, 3 * 525_600, rows)
    when = np.datetime64("2019-01-01T00:00") + minute.astype("timedelta64[m]")
    large = 2**60 + chance.integers(0, 1000, rows)
    y = a + 2.0 * (kind == "high") + 0.5 * (code == 30) + flag + 1e-3 * (large - 2**60)
    y = y + np.sin(2 * np.pi * (minute % 1440) / 1440) + 0.1 * chance.normal(size=rows)
    return {
        "a": a.tolist(),
        "kind": kind.tolist(),
        "code": [f"c{one}" for one in code.tolist()],
        "flag": flag.tolist(),
        "when": [str(one) for one in when],
        "large": large.tolist(),
        "y": y.tolist(),
    }


def gaps(rows: int, seed: int) -> Table:
    """Missing cells of several columns, and of `b` in rows with a high target."""
    table, chance = mixed(rows, seed), np.random.default_rng(seed + 1)
    table["b"] = [None if y > 2.5 else float(chance.normal()) for y in table["y"]]
    for name in ("a", "kind", "flag", "when"):
        for row in np.flatnonzero(chance.random(rows) < 0.05).tolist():
            table[name][row] = None
    return table


@dataclass(frozen=True)
class Case:
    """A table to train on, and a specification."""

    table: Callable[[int, int], Table]
    spec: dict[str, Any] = field(default_factory=dict)
    rows: int = 120


CASES = {
    "matern12": Case(numbers, {**QUICK, "kernel": "matern12"}),
    "near": Case(numbers, {**FULL, "kernel": "matern32"}, rows=80),
    "noise": Case(numbers, {**QUICK, "noise": "input-dependent", "kernel": "matern52"}),
    "mean": Case(numbers, {**QUICK, "artefact": "mean"}),
    "log": Case(skewed, {**QUICK, "target_transform": "log"}),
    "rank-normal": Case(skewed, {**QUICK, "target_transform": "rank-normal"}),
    "shares": Case(shares, {**QUICK, "target_transform": "none"}),
    "tails": Case(tails, {**QUICK, "input_transform": "yeo-johnson", "noise": "input-dependent"}, rows=250),
    "mixed": Case(mixed, {**QUICK, "dates": "cyclic"}, rows=200),
    "small": Case(numbers, {"adapt": {"rounds": 1, "steps": 4}}, rows=12),
}
SLOW_CASES = {
    **{
        f"{kernel}-{name}": Case(numbers, {**spec, "kernel": kernel})
        for kernel in ("gaussian", "matern52", "matern32", "matern12")
        for name, spec in (("basis", QUICK), ("near", FULL))
    },
    "mean-rows": Case(numbers, {**QUICK, "mean_rows": "all", "method": "rand"}),
    "tails-near": Case(tails, {**FULL, "input_transform": "yeo-johnson", "kernel": "matern32"}),
    "tails-mean-rows": Case(tails, {**QUICK, "input_transform": "yeo-johnson", "mean_rows": "all", "method": "rand"}),
    "compact": Case(numbers, {**QUICK, "artefact": "compact", "tolerance": 0.05}),
    "sor": Case(numbers, {**QUICK, "approximation": "sor", "calibrate": False}),
    "asymmetric": Case(skewed, {**QUICK, "intervals": "asymmetric", "target_transform": "none"}),
    "log1p": Case(skewed, {**QUICK, "target_transform": "log1p"}),
    "yeo-johnson": Case(skewed, {**QUICK, "target_transform": "yeo-johnson"}),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with running(tmp_path_factory.mktemp("exports")) as found:
        yield found


def trained(service: Service, name: str, case: Case) -> dict[str, Any]:
    """The report of a training on a case's table, done once."""
    if (known := service.client.get(f"/models/{name}/versions/1")).status_code == 200:
        found: dict[str, Any] = known.json()["report"]
        return found
    body = {"columns": case.table(case.rows, 0), "spec": {"model": name, "target": "y", **case.spec}}
    answer = service.client.post("/train", json=body)
    assert answer.status_code == 202, answer.text
    service.work()
    job = service.client.get(answer.headers["location"]).json()
    assert job["state"] == "succeeded", job["error"]
    report: dict[str, Any] = job["result"]["report"]
    return report


@pytest.mark.parametrize("name", [*CASES, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW_CASES)])
def test_exports_predict_what_the_server_does(server: Service, name: str, tmp_path: Path) -> None:
    case = (CASES | SLOW_CASES)[name]
    asked_rows = 10 * ROWS if name in SLOW_CASES else ROWS
    report = trained(server, name, case)
    assert (report["artefact"].get("variance") == "near") is ("near" in name)
    table = case.table(asked_rows, 1)
    spread = float(np.std(table.pop("y")))
    expected = by_server(server, name, table)
    assert list(expected) == (["mean"] if name == "mean" else ["mean", "std", "lower", "upper"])
    found = by_onnx(download(server, name, "onnx"), table, dates=["when"])
    assert max(differences(found, expected, spread).values()) < CLOSE
    found = by_numpy(download(server, name, "numpy"), table, tmp_path)
    assert max(differences(found, expected, spread).values()) < CLOSE


@pytest.mark.parametrize("kind", ["skewed", pytest.param("plain", marks=pytest.mark.slow)])
def test_missing_cells_are_integrated_over(server: Service, kind: str, tmp_path: Path) -> None:
    """Missing numbers, categories, booleans and dates, and one column that is marked."""

    def table(rows: int, seed: int) -> Table:
        found = gaps(rows, seed)
        return found if kind == "plain" else found | {"y": np.exp(0.5 * np.array(found["y"])).tolist()}

    spec = {"missing": "impute", "dates": "cyclic", "target_transform": "none" if kind == "plain" else "log1p"}
    trained(server, f"gaps-{kind}", Case(table, {**QUICK, **spec}, rows=300))
    features = server.client.get(f"/models/gaps-{kind}/versions/1").json()["features"]
    assert {feature["name"] for feature in features if feature["indicator"]} == {"b"}
    asked = table(1_000, 1)
    spread = float(np.std(asked.pop("y")))
    expected = by_server(server, f"gaps-{kind}", asked)
    found = by_numpy(download(server, f"gaps-{kind}", "numpy"), asked, tmp_path)
    assert max(differences(found, expected, spread).values()) < CLOSE
    data = download(server, f"gaps-{kind}", "onnx")
    assert max(differences(by_onnx(data, asked, ["when"]), expected, spread).values()) < CLOSE
    whole = [row for row in range(1_000) if all(asked[name][row] is not None for name in asked if name != "b")][:3]
    some = {name: [cells[row] for row in whole] for name, cells in asked.items()}  # and where no row misses any
    few = {name: values[whole] for name, values in expected.items()}
    assert max(differences(by_onnx(data, some, ["when"]), few, spread).values()) < CLOSE


def test_rows_that_the_server_refuses_are_nan(server: Service, tmp_path: Path) -> None:
    """An unseen level, a missing cell, a boolean that is none: the rows beside them are what they are."""
    trained(server, "mixed", CASES["mixed"])
    asked = mixed(6, 1)
    asked.pop("y")
    asked["kind"][0], asked["code"][1], asked["a"][2], asked["when"][3] = "other", None, None, None
    asked["large"] = [int(cell) for cell in asked["large"]]
    expected = by_server(server, "mixed", asked)
    assert np.isnan(expected["mean"]).tolist() == [True] * 4 + [False] * 2
    for found in (
        by_onnx(download(server, "mixed", "onnx"), asked, dates=["when"]),
        by_numpy(download(server, "mixed", "numpy"), asked, tmp_path),
    ):
        assert max(differences(found, expected, 1.0).values()) < CLOSE


def test_values_that_stand_for_missing_and_unseen_levels(server: Service, tmp_path: Path) -> None:
    """-200 and `none` are missing, and marked; an unseen level is an average one; 2 is the level 2.0."""
    chance = np.random.default_rng(0)
    levels = ["1.0", "2.0", "none"]
    rows: Table = {"a": [-200.0, *chance.normal(size=119).tolist()], "kind": [levels[i % 3] for i in range(120)]}
    rows["y"] = [a / 100 + (kind == "2.0") for a, kind in zip(rows["a"], rows["kind"], strict=True)]
    rows["a"] = [-200.0 if row % 5 == 0 else a for row, a in enumerate(rows["a"])]
    rows["y"] = [y + 5.0 * (a == -200.0) for y, a in zip(rows["y"], rows["a"], strict=True)]
    spec = {
        "missing": "impute",
        "missing_values": [-200, "none"],
        "unseen": "prior",
        "columns": {"kind": "category"},
    }
    trained(server, "marked", Case(lambda *_: rows, {**QUICK, **spec}))
    asked: Table = {"a": [0.5, -200.0, 0.1, None], "kind": ["2", "1.0", "new", "1"]}
    expected = by_server(server, "marked", asked)
    found = by_numpy(download(server, "marked", "numpy"), asked, tmp_path)
    assert max(differences(found, expected, 1.0).values()) < CLOSE
    asked["a"][3] = float("nan")
    found = by_onnx(download(server, "marked", "onnx"), asked)
    assert max(differences(found, expected, 1.0).values()) < CLOSE


def test_an_interval_of_another_level(server: Service, tmp_path: Path) -> None:
    trained(server, "rank-normal", CASES["rank-normal"])
    asked = skewed(50, 1)
    asked.pop("y")
    expected = by_server(server, "rank-normal", asked, interval=0.5)
    data = download(server, "rank-normal", "onnx", interval=0.5)
    assert max(differences(by_onnx(data, asked), expected, 1.0).values()) < CLOSE
    data = download(server, "rank-normal", "numpy", interval=0.5)
    assert max(differences(by_numpy(data, asked, tmp_path), expected, 1.0).values()) < CLOSE
    assert data == download(server, "rank-normal", "numpy", interval=0.5), "the same bytes each time"


def test_the_file_for_numpy_needs_nothing_else(server: Service, tmp_path: Path) -> None:
    trained(server, "matern12", CASES["matern12"])
    zipfile.ZipFile(BytesIO(download(server, "matern12", "numpy"))).extractall(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.npz", "predict.py"]
    lines = [line for line in (tmp_path / "predict.py").read_text().splitlines() if line.strip()]
    assert len(lines) < 50
    script = (
        "import sys; sys.path.insert(0, '.'); import predict;"
        "print(predict.predict({'a': [0.1], 'b': [1e4]})['mean'][0]);"
        "assert not {'scipy', 'app', 'core', 'pickle5', 'safetensors'} & set(sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True
    )
    with pytest.raises(ValueError, match=r"^columns are missing: \['b'\]$"):
        by_numpy(download(server, "matern12", "numpy"), {"a": [0.1]}, tmp_path)
    expected = by_server(server, "matern12", {"a": [0.1], "b": [1e4]})
    assert float(done.stdout) == pytest.approx(expected["mean"][0], rel=1e-9)


def test_an_onnx_model_tells_its_inputs(server: Service) -> None:
    trained(server, "mixed", CASES["mixed"])
    model = onnx.load_from_string(download(server, "mixed", "onnx"))
    assert {opset.domain: opset.version for opset in model.opset_import} == {"": 17, "ai.onnx.ml": 2}
    facts = {each.key: each.value for each in model.metadata_props}
    assert (facts["target"], facts["interval"]) == ("y", "0.95")
    told = {each["column"]: (each["kind"], each["type"]) for each in json.loads(facts["inputs"])}
    assert told == {
        "a": ("number", "float64"),
        "kind": ("category", "string"),
        "code": ("category", "string"),
        "flag": ("boolean", "float64"),
        "when": ("date", "int64"),
        "large": ("number", "int64"),
    }


def test_refusals(server: Service) -> None:
    trained(server, "matern12", CASES["matern12"])
    path = "/models/matern12/versions/1/artefact"
    for query, words in (
        ("format=pmml", "format"),
        ("format=onnx&interval=1", "interval"),
        ("interval=0.5", "of formats onnx and numpy"),
    ):
        assert words in str(assert_problem(server.client.get(f"{path}?{query}"), 422))
    assert_problem(server.client.get("/models/matern12/versions/9/artefact?format=onnx"), 404)
    headers = server.client.get(f"{path}?format=numpy").headers
    assert headers["content-disposition"] == 'attachment; filename="matern12-1.zip"'


def test_several_targets_are_outputs_by_name(server: Service, tmp_path: Path) -> None:
    table = mixed(120, 0)
    rows: Table = table | {"y2": [10.0 * y for y in table["y"]]}
    answer = server.client.post(
        "/train", json={"columns": rows, "spec": {"model": "both", "target": ["y", "y2"], **QUICK}}
    )
    assert answer.status_code == 202, answer.text
    server.work()
    asked = mixed(200, 1)
    spread = float(np.std(asked.pop("y")))
    told = server.client.post("/predict", json={"model": "both", "columns": asked}).json()
    found = by_onnx(download(server, "both", "onnx"), asked, ["when"])
    assert list(found) == [f"{target}.{name}" for target in ("y", "y2") for name in ("mean", "std", "lower", "upper")]
    for target, unit in (("y", spread), ("y2", 10.0 * spread)):
        expected = {name: np.array(told[name][target]) for name in ("mean", "std", "lower", "upper")}
        own = {name: found[f"{target}.{name}"] for name in expected}
        assert max(differences(own, expected, unit).values()) < CLOSE
        archive = download(server, "both", "numpy", target=target)
        assert max(differences(by_numpy(archive, asked, tmp_path / target), expected, unit).values()) < CLOSE
    path = "/models/both/versions/1/artefact"
    refused = assert_problem(server.client.get(f"{path}?format=numpy"), 422)
    assert "expected one of 'y', 'y2'" in refused["detail"]
    assert_problem(server.client.get(f"{path}?format=onnx&target=z"), 404)
