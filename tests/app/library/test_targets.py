"""Several targets in Python and on the command line: a column for each of what is predicted."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from pursuit import Client, InvalidError, SparseGPRegressor, load

from app.cli import local_models
from app.cli.client_errors import ClientError
from tests.app.library.conftest import url
from tests.app.routes.service import QUICK, Service


def frame(rows: int = 80) -> pd.DataFrame:
    random = np.random.default_rng(0)
    x, z = random.uniform(-1.0, 1.0, (2, rows))
    first = np.sin(3.0 * x) + 0.1 * random.standard_normal(rows)
    return pd.DataFrame(
        {"x": x, "z": z, "size, cm": first, "weight": 10.0 * first, "y": x * z}, index=range(5, 5 + rows)
    )


def test_a_frame_gets_columns_for_each_target(client: Client, tmp_path: Path) -> None:
    data = frame()
    model = client.train(data, target=["size, cm", "weight"], features=["x", "z"], model="both", **QUICK).wait()
    found = model.predict(data[["z", "x"]])
    names = [f"{target}_{what}" for target in ("size, cm", "weight") for what in ("mean", "std", "lower", "upper")]
    assert list(found.columns) == names
    pd.testing.assert_index_equal(found.index, data.index)
    np.testing.assert_allclose(found["weight_std"], 10.0 * found["size, cm_std"], rtol=1e-8)
    draws, total = model.sample(data[["x", "z"]][:3], 7), model.total(data[["x", "z"]], "sum", over="both")
    assert draws.shape == (7, 3, 2)
    np.testing.assert_allclose(draws[..., 1], 10.0 * draws[..., 0], rtol=1e-6)  # errors of the two are the same
    np.testing.assert_allclose(total["std"], 11.0 * model.total(data[["x", "z"]])["std"]["size, cm"], rtol=1e-6)
    assert model.report["target_names"] == ["size, cm", "weight"]
    local = load(model.save(tmp_path / "both.safetensors"))
    assert local.targets == ("size, cm", "weight")
    for pushed in (tmp_path / "both.safetensors", local):
        pd.testing.assert_frame_equal(client.push(pushed, "again").predict(data[["x", "z"]]), found)
    pd.testing.assert_frame_equal(local.predict(data[["x", "z"]]), found)
    for target, factor in (("size, cm", 1.0), ("weight", 10.0)):
        told, here = (each.explain(data[["x", "z"]][:3], target=target) for each in (model, local))
        pd.testing.assert_frame_equal(told.parts, here.parts)
        np.testing.assert_allclose(told.summary["mean"], factor * found["size, cm_mean"][:3], rtol=1e-8)
        scores, same = (each.evaluate(data, target=target) for each in (model, local))
        assert (scores["target"], scores["scores"]) == (target, same["scores"])
    first, second = (model.effects(target=name) for name in ("size, cm", "weight"))
    assert (first["target"], second["target"], model.effects()["target"]) == ("size, cm", "weight", "size, cm")
    np.testing.assert_allclose(second["average"], 10.0 * first["average"], rtol=1e-6)
    spreads = [model.importance(target=name)["features"][0]["importance"] for name in ("size, cm", "weight")]
    np.testing.assert_allclose(spreads[1], 10.0 * spreads[0], rtol=1e-6)
    assert model.details(target="weight")["target"] == "weight"
    assert b"weight" in local_models.report((tmp_path / "both.safetensors").read_bytes(), "both", "weight")
    with pytest.raises(ClientError, match="no target 'y9'"):
        local_models.report((tmp_path / "both.safetensors").read_bytes(), "both", "y9")
    with pytest.raises(InvalidError, match="expected one of 'size, cm', 'weight'; got none"):
        local.explain(data[["x", "z"]][:3])
    assert model.suggest({}, count=1, target="weight")["target"] == "weight"
    artefact, table = (tmp_path / "both.safetensors").read_bytes(), data.to_csv(index=False).encode()
    scored = local_models.evaluate(artefact, table, by=(), worst=0, on_error=None, target="weight")
    assert scored["scores"] == model.evaluate(data, worst=0, target="weight")["scores"]


def targets(X: NDArray[np.float64]) -> NDArray[np.float64]:
    noise = np.random.default_rng(1).standard_normal(len(X))
    first = np.sin(3.0 * X[:, 0]) + 0.1 * noise
    return np.column_stack((first, 10.0 * first, X[:, 0] * X[:, 1]))


def test_the_estimator_takes_a_matrix_of_targets(client: Client) -> None:
    X = np.random.default_rng(0).uniform(-1.0, 1.0, (80, 2))
    y = targets(X)
    found = SparseGPRegressor(basis_size=20, adapt={"rounds": 1, "steps": 5}).fit(X, y)
    mean, std = found.predict(X, return_std=True)
    assert mean.shape == std.shape == y.shape
    np.testing.assert_allclose(std[:, 1], 10.0 * std[:, 0], rtol=1e-8)
    assert found.predict_interval(X).shape == (80, 2, 3)
    assert found.predict_quantiles(X, (0.1, 0.9)).shape == (80, 2, 3)
    np.testing.assert_array_equal(found.predict(X), mean)
    assert found.score(X, y) > 0.9
    assert list(found.report_["targets"]) == ["y0", "y1", "y2"]
    served = client.push(found, "matrix").predict(X)
    np.testing.assert_allclose(served["y2_mean"], mean[:, 2], rtol=1e-12)
    named = SparseGPRegressor(basis_size=20, adapt=False).fit(X, pd.DataFrame(y, columns=["a", "b", "x0"]))
    assert named.report_["target_names"] == ["a", "b", "x0_"]


@pytest.mark.parametrize("words", [("--target", "weight,y"), ("--target", "weight", "--target", "y")])
def test_the_command_takes_several(service: Service, tmp_path: Path, words: tuple[str, ...]) -> None:
    frame().to_csv(tmp_path / "table.csv", index=False)
    spec = json.dumps(QUICK | {"features": ["x", "z"]})
    command = [sys.executable, "-m", "app.cli", "train", str(tmp_path / "table.csv"), *words, "--spec", spec]
    done = subprocess.run(
        [*command, "--model", "commanded", "--url", url(service)],
        capture_output=True,
        text=True,
        check=True,
        env={"COLUMNS": "120", "PATH": ""},
        cwd=Path(__file__).parents[3],
    )
    assert "shares hyperparameters with" in done.stdout
    answer = service.ask("commanded", [[0.25, 0.5]])
    assert list(answer["mean"]) == ["weight", "y"]
    asked = ["evaluate", "commanded", str(tmp_path / "table.csv"), "--target", "y", "--json", "--url", url(service)]
    scored = subprocess.run(
        [*command[:3], *asked], capture_output=True, text=True, check=True, cwd=Path(__file__).parents[3]
    )
    assert json.loads(scored.stdout)["target"] == "y"
    asked = ["models", "commanded@1", "--target", "y", "--json", "--url", url(service)]
    shown = subprocess.run(
        [*command[:3], *asked], capture_output=True, text=True, check=True, cwd=Path(__file__).parents[3]
    )
    assert json.loads(shown.stdout)["target"] == "y"
    page = tmp_path / "report.html"
    asked = ["report", "commanded@1", "--target", "y", "--output", str(page), "--url", url(service)]
    subprocess.run([*command[:3], *asked], capture_output=True, check=True, cwd=Path(__file__).parents[3])
    assert page.read_bytes() == service.client.get("/models/commanded/versions/1/report?target=y").content
