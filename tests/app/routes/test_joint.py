"""Rows predicted together, over HTTP: draws of the function, totals and their error bars."""

import io
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.app.routes.problems import assert_problem
from tests.app.routes.service import CSV_BODY, QUICK, Service, curve, even, running, waves

ROWS: list[dict[str, Any]] = [{"x": 0.1 * place} for place in range(20)]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """`plain`, a sparse model; `log`, of a logarithm; `full`, a full process with error bars from near rows; `mean`,
    without any; `waves`, with a category that may be missing."""
    tables: dict[str, tuple[str, dict[str, Any]]] = {
        "plain": (curve(120, even), {}),
        "log": (curve(120, even, bend=math.exp), {"target_transform": "log"}),
        "full": (curve(60, even), {"variance": "near", "kernel": "gaussian", "max_basis_size": 20, "effort": "normal"}),
        "mean": (curve(120, even), {"artefact": "mean"}),
        "waves": (waves().replace("low", "", 9), {"missing": "impute"}),
    }
    with running(tmp_path_factory.mktemp("service")) as service:
        for name, (table, more) in tables.items():
            spec = more if name == "full" else QUICK | more
            job = service.train(table, model=name, **spec)
            assert job["state"] == "succeeded", job
        assert service.client.get("/models/full/versions/1").json()["artefact"]["variance"] == "near"
        yield service


@pytest.mark.parametrize("model", ["plain", "full"])
def test_a_total_is_as_sure_as_the_draws_of_its_rows_say(trained: Service, model: str) -> None:
    """latent_std is the spread of sums of draws; the error bar adds the rows' own noise, and is not the sum of bars."""
    rows = trained.ask(model, ROWS, include=["latent_std", "samples"], samples=4000, seed=3)
    found = trained.ask(model, ROWS, aggregate="sum", interval=0.9)
    assert (found["aggregate"], found["rows"], found["method"], found["interval"]) == ("sum", 20, "exact", 0.9)
    assert found["mean"] == pytest.approx(sum(rows["mean"]), rel=1e-9)
    draws = np.array(rows["samples"])
    assert draws.shape == (4000, 20)
    assert float(draws.sum(axis=1).std()) == pytest.approx(found["latent_std"], rel=0.05)
    np.testing.assert_allclose(draws.std(axis=0), rows["latent_std"], rtol=0.07)
    noise = np.square(rows["std"]).sum() - np.square(rows["latent_std"]).sum()
    assert found["std"] ** 2 == pytest.approx(found["latent_std"] ** 2 + noise, rel=1e-6)
    assert found["std"] < sum(rows["std"])
    assert found["lower"] < found["mean"] < found["upper"]
    mean = trained.ask(model, ROWS, aggregate="mean")
    assert mean["mean"] == pytest.approx(found["mean"] / 20)
    assert mean["std"] == pytest.approx(found["std"] / 20)


@pytest.mark.parametrize("model", ["plain", "full"])
def test_the_total_of_a_row_is_the_row(trained: Service, model: str) -> None:
    row = trained.ask(model, ROWS[:1], include=["latent_std", "median"], quantiles=[0.2], interval=[0.5, 0.95])
    one = trained.ask(model, ROWS[:1], aggregate="mean", include=["median"], quantiles=[0.2], interval=[0.5, 0.95])
    for name in ("mean", "std", "latent_std", "median"):
        assert one[name] == pytest.approx(row[name][0], rel=1e-8), name
    assert one["lower"] == pytest.approx([end[0] for end in row["lower"]], rel=1e-8)
    assert one["quantile_values"] == pytest.approx([values[0] for values in row["quantile_values"]], rel=1e-8)
    assert one["interval_basis"] == row["interval_basis"]


def test_a_seed_gives_its_draws(trained: Service) -> None:
    first, again, other, default = (
        trained.ask("plain", ROWS, include=["samples"], **seed) for seed in ({"seed": 7}, {"seed": 7}, {"seed": 8}, {})
    )
    assert first["samples"] == again["samples"]
    assert first["samples"] != other["samples"]
    assert np.array(default["samples"]).shape == (100, 20)
    totals = trained.ask("plain", ROWS, samples=2000, aggregate="sum")
    assert float(np.std(totals["samples"])) == pytest.approx(totals["latent_std"], rel=0.1)


def test_a_transformed_target_is_drawn_in_its_own_unit(trained: Service) -> None:
    rows = trained.ask("log", ROWS, samples=500)
    assert min(map(min, rows["samples"])) > 0.0
    found = trained.ask("log", ROWS, aggregate="sum", samples=50)
    assert found["method"] == "samples"
    assert found["mean"] == pytest.approx(sum(rows["mean"]), rel=1e-9)
    assert 0.0 < found["lower"] < found["mean"] < found["upper"]
    assert found["latent_std"] <= found["std"]
    assert len(found["samples"]) == 50


def test_files_in_and_out(trained: Service) -> None:
    """A table of CSV, its draws as columns; a total as one line."""
    body = "x\n" + "".join(f"{row['x']!r}\n" for row in ROWS)
    query: dict[str, str | int] = {"model": "plain", "samples": 5, "seed": 1}
    answer = trained.client.post(
        "/predict", params=query, content=body, headers=CSV_BODY | {"accept": "application/x-npy"}
    )
    assert answer.status_code == 200, answer.text
    names = answer.headers["x-columns"].split(",")
    assert names == ["mean", "std", "lower", "upper", *(f"sample_{place}" for place in range(5))]
    draws = np.load(io.BytesIO(answer.content))[:, 4:].T
    asked = trained.ask("plain", ROWS, samples=5, seed=1)
    np.testing.assert_allclose(draws, asked["samples"], rtol=1e-12)
    total = trained.client.post(
        "/predict", params={"model": "plain", "aggregate": "mean"}, content=body, headers=CSV_BODY
    ).json()
    assert total == trained.ask("plain", ROWS, aggregate="mean")
    lines = trained.client.post(
        "/predict",
        params={"model": "plain", "aggregate": "mean"},
        content=body,
        headers=CSV_BODY | {"accept": "text/csv"},
    ).text.split()
    assert lines[0] == "mean,std,lower,upper,latent_std"
    assert next(map(float, lines[1].split(","))) == total["mean"]


def test_a_mean_alone_has_a_total_without_an_error_bar(trained: Service) -> None:
    rows, total = trained.ask("mean", ROWS), trained.ask("mean", ROWS, aggregate="sum")
    assert total == {
        "model": "mean",
        "version": 1,
        "aggregate": "sum",
        "rows": 20,
        "mean": pytest.approx(sum(rows["mean"])),
    }
    alone = trained.ask("plain", ROWS, aggregate="sum", interval=False)
    assert "std" not in alone
    assert alone["mean"] == pytest.approx(trained.ask("plain", ROWS, aggregate="sum")["mean"])
    refused = trained.client.post("/predict", json={"model": "mean", "rows": ROWS, "samples": 3})
    assert_problem(refused, 422, "no error bars")


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"aggregate": "product"}, ["aggregate", "sum, mean", "product"]),
        ({"samples": 0}, ["samples", "1 to 10,000", "0"]),
        ({"samples": 20_000}, ["samples", "20000"]),
        ({"samples": 3, "seed": -1}, ["seed"]),
        ({"seed": 1}, ["seed", "samples"]),
        ({"aggregate": "sum", "on_error": "null"}, ["on_error"]),
        ({"aggregate": "sum", "include": ["support"]}, ["support"]),
        ({"aggregate": "sum", "rows": []}, ["at least one row"]),
        ({"samples": 1, "rows": [{"x": 1.0}] * 2001}, ["at most 2,000 rows", "2,001"]),
        ({"samples": 10_000, "rows": [{"x": 1.0}] * 201}, ["2,000,000", "2,010,000"]),
        ({"aggregate": "sum", "rows": [{"x": 1.0}] * 10_001}, ["at most 10,000 rows", "10,001"]),
        ({"aggregate": "sum", "model": "log", "rows": [{"x": 1.0}] * 2001}, ["2,000 rows of a transformed target"]),
        ({"aggregate": "sum", "model": "waves", "rows": [{"x": 1.0, "kind": None}]}, ["row 0", "missing cell"]),
    ],
)
def test_refusals(trained: Service, more: dict[str, Any], words: list[str]) -> None:
    answer = trained.client.post("/predict", json={"model": "plain", "rows": ROWS} | more)
    assert_problem(answer, 422, *words)


def test_datasets_have_no_total(trained: Service) -> None:
    dataset = trained.client.post("/datasets", json={"columns": {"x": [1.0, 2.0], "y": [1.0, 2.0]}}).json()["id"]
    answer = trained.client.post("/predict", json={"model": "plain", "dataset": dataset, "aggregate": "sum"})
    assert_problem(answer, 422, "aggregate and samples")
