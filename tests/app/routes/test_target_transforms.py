"""Targets learnt as their logarithm or a power, over HTTP: everything comes back in the target's own unit."""

import math
import random
from collections.abc import Iterator
from statistics import NormalDist, fmean
from typing import Any

import numpy as np
import pytest

from app.storage import artefact
from tests.app.routes.problems import assert_problem
from tests.app.routes.service import QUICK, Service, cells, curve, running

SPEC: dict[str, Any] = QUICK | {"basis_size": 12, "noise": "constant"}
PLACES = [[0.1], [1.7], [4.4], [9.0], [60.0]]
QUANTILES = [0.01, 0.025, 0.25, 0.5, 0.75, 0.975, 0.99]


def wide(chance: random.Random, _: float) -> float:
    return chance.gauss(0, 0.5)


def mirrored(value: float) -> float:
    """Skewed to the left, of either sign."""
    return 2.0 - math.exp(value)


LOGNORMAL, LEFT = curve(400, wide, bend=math.exp), curve(400, wide, bend=mirrored)
TABLES = {
    "none": LOGNORMAL,
    "log": LOGNORMAL,
    "log1p": LOGNORMAL,
    "yeo-johnson": LOGNORMAL,
    "left": LEFT,
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A model for each transform, by its name, of one log-normal target; and `left`, of one skewed the other way."""
    with running(tmp_path_factory.mktemp("service")) as service:
        for name, table in TABLES.items():
            kind = "yeo-johnson" if name == "left" else name
            job = service.train(table, model=name, **SPEC | {"target_transform": kind})
            assert job["state"] == "succeeded", job
        yield service


def test_a_logarithm_leaves_every_interval_above_zero(trained: Service) -> None:
    for model in ("log", "log1p", "yeo-johnson", "none"):
        found = trained.ask(model, PLACES, interval=[0.5, 0.99], quantiles=QUANTILES, include=["median"])
        lowest = min(*map(min, found["lower"]), *map(min, found["quantile_values"]), *found["mean"])
        assert lowest > 0.0 if model == "log" else lowest >= 0.0
        told = trained.client.get(f"/models/{model}/versions/1").json()["report"]["target_transform"]
        assert (told["lowest"], told["highest"]) == (0.0, None)
        assert told["looks"] == "a quantity that is never negative"
    assert min(trained.ask("left", PLACES, interval=0.99)["lower"]) < -1.0


def test_auto_takes_the_transform_that_predicts_and_says_so(trained: Service) -> None:
    report = trained.train(LOGNORMAL, model="auto", **SPEC | {"target_transform": "auto"})["result"]["report"]
    told = report["target_transform"]
    assert told["kind"] == "log"
    assert told["reason"].startswith("the target looks like a quantity that is never negative; learnt as log: gains")
    assert told["reason"] in report["warnings"]
    assert trained.ask("auto", PLACES) | {"model": "log"} == trained.ask("log", PLACES)
    page = trained.client.get("/models/auto/versions/1").json()
    assert (page["target_transform"]["kind"], page["spec"]["target_transform"]) == ("log", "auto")


def test_ranks_hold_new_rows_and_a_model_of_them_is_kept(trained: Service) -> None:
    trained.train(LOGNORMAL, model="ranks", **SPEC | {"target_transform": "rank-normal"})
    x, y = cells(curve(2000, wide, bend=math.exp, seed=1))
    found = trained.ask("ranks", [[value] for value in x], interval=0.9)
    inside = fmean(low <= truth <= high for truth, low, high in zip(y, found["lower"], found["upper"], strict=True))
    assert inside == pytest.approx(0.9, abs=3.5 * (0.9 * 0.1 / 360) ** 0.5)
    data = trained.client.get("/models/ranks/versions/1/artefact").content
    kept = artefact.load(data)
    assert len(kept.transform.knots[0]) > 20
    assert artefact.save(kept) == data


@pytest.mark.parametrize(("model", "right"), [("log", True), ("log1p", True), ("yeo-johnson", True), ("left", False)])
def test_mean_and_median_differ_to_the_side_of_the_long_tail(trained: Service, model: str, right: bool) -> None:
    found = trained.ask(model, PLACES, interval=0.9, include=["median"])
    for mean, median, lower, upper in zip(*(found[n] for n in ("mean", "median", "lower", "upper")), strict=True):
        assert lower < median < upper
        assert (mean > median) is right
        assert (upper - median > median - lower) is right


@pytest.mark.parametrize("model", TABLES)
def test_quantiles_intervals_and_median_agree(trained: Service, model: str) -> None:
    found = trained.ask(model, PLACES, interval=[0.5, 0.95], quantiles=QUANTILES, include=["median"])
    quantiles = dict(zip(found["quantiles"], found["quantile_values"], strict=True))
    rising = np.diff(found["quantile_values"], axis=0)
    assert (rising >= 0).all()
    assert (rising[np.array(found["quantile_values"])[1:] > 0.0] > 0).all()  # at the target's bound they are the same
    assert quantiles[0.5] == found["median"]
    for place, (low, high) in enumerate(((0.25, 0.75), (0.025, 0.975))):
        np.testing.assert_allclose(found["lower"][place], quantiles[low], rtol=1e-9)
        np.testing.assert_allclose(found["upper"][place], quantiles[high], rtol=1e-9)


def test_moments_of_a_log_normal_target(trained: Service) -> None:
    trained.train(LOGNORMAL, model="log-plain", **SPEC | {"target_transform": "log", "calibrate": False})
    found = trained.ask("log-plain", PLACES, quantiles=[0.2], include=["median"])
    median, values = np.array(found["median"]), np.array(found["quantile_values"][0])
    sd = np.log(median / values) / NormalDist().inv_cdf(0.8)  # of the logarithm
    np.testing.assert_allclose(found["mean"], median * np.exp(sd**2 / 2), rtol=1e-9)
    np.testing.assert_allclose(found["std"], found["mean"] * np.sqrt(np.expm1(sd**2)), rtol=1e-9)


def test_medians_and_means_are_those_of_new_rows(trained: Service) -> None:
    places = [[x / 10] for x in range(5, 56)]
    centres = np.sin(np.array(places)[:, 0])
    for model in ("log", "log1p", "yeo-johnson"):
        found = trained.ask(model, places, include=["median"])
        assert fmean(found["median"] / np.exp(centres)) == pytest.approx(1.0, abs=0.08), model
        assert fmean(found["mean"] / np.exp(centres + 0.125)) == pytest.approx(1.0, abs=0.08), model


@pytest.mark.parametrize("model", ["log", "log1p", "yeo-johnson", "left"])
@pytest.mark.parametrize("level", [0.5, 0.9, 0.95])
def test_intervals_hold_new_rows_as_often_as_they_say(trained: Service, model: str, level: float) -> None:
    x, y = cells(curve(2000, wide, bend=mirrored if model == "left" else math.exp, seed=1))
    found = trained.ask(model, [[value] for value in x], interval=level)
    inside = fmean(low <= truth <= high for truth, low, high in zip(y, found["lower"], found["upper"], strict=True))
    assert inside == pytest.approx(level, abs=3.5 * (level * (1 - level) / 360) ** 0.5)


def test_a_transform_that_fits_predicts_better(trained: Service) -> None:
    nlpd = {
        name: trained.client.get(f"/models/{name}/versions/1").json()["report"]["leave_one_out"]["nlpd"]
        for name in TABLES
    }
    assert nlpd["log"] < nlpd["none"] - 0.2  # densities of the target itself, so that they compare
    assert nlpd["yeo-johnson"] < nlpd["none"] - 0.1


@pytest.mark.parametrize("model", ["none", "log", "log1p", "yeo-johnson", "left"])
def test_a_row_never_depends_on_the_others(trained: Service, model: str) -> None:
    chance = random.Random(3)
    rows = [[chance.uniform(-1, 9)] for _ in range(1100)]
    together = trained.ask(model, rows, interval=0.9, include=["latent_std", "median"])
    for place in (0, 1, 511, 512, 1099):
        alone = trained.ask(model, [rows[place]], interval=0.9, include=["latent_std", "median"])
        for name in ("mean", "std", "lower", "upper", "latent_std", "median"):
            assert alone[name][0] == together[name][place], name


def test_the_page_of_a_version_tells_the_transform(trained: Service) -> None:
    for name in ("none", "log", "log1p"):
        page = trained.client.get(f"/models/{name}/versions/1").json()
        assert page["target_transform"]["kind"] == page["spec"]["target_transform"] == name
    right, left = (trained.client.get(f"/models/{name}/versions/1").json() for name in ("yeo-johnson", "left"))
    assert right["target_transform"]["power"] < 1 < left["target_transform"]["power"]
    assert right["target_transform"]["scale"] > 0


def test_means_alone_of_a_transformed_target_are_refused(trained: Service) -> None:
    spec = {"target_transform": "log", "artefact": "mean"}
    assert_problem(trained.post_file(LOGNORMAL, spec), 422, "artefact", "`mean`", "transformed")


@pytest.mark.parametrize(("kind", "least"), [("log", 0.0), ("log1p", -1.0)])
def test_a_target_without_a_logarithm_is_refused_by_row(trained: Service, kind: str, least: float) -> None:
    table = "x,y\n" + "".join(f"{row},{least - 1.5 if row in (3, 7) else row + 1.5}\n" for row in range(20))
    problem = assert_problem(
        trained.post_file(table, {"target_transform": kind}),
        422,
        "row 3",
        "column 'y'",
        f"target_transform {kind} needs a target above {least:g}, got {least - 1.5}",
        "and 1 more row",
    )
    places = [(fault["row"], fault["line"], fault["column"], fault["value"]) for fault in problem["errors"]]
    assert places == [(3, 5, "y", str(least - 1.5)), (7, 9, "y", str(least - 1.5))]
    assert problem["error_count"] == 2
    edge = table.replace(f"{least - 1.5}", f"{least}")
    assert_problem(trained.post_file(edge, {"target_transform": kind}), 422, "row 3", f"above {least:g}, got {least}")
    fine = table.replace(f"{least - 1.5}", f"{least + 1e-9!r}")
    assert trained.post_file(fine, {"target_transform": kind, "adapt": False}).status_code == 202
    assert trained.post_file(table, {"target_transform": "yeo-johnson", "adapt": False}).status_code == 202
    columns = {"x": list(range(20)), "y": [least - 1.0 if row == 5 else row + 1.0 for row in range(20)]}
    body = {"columns": columns, "spec": {"target_transform": kind}}
    assert_problem(trained.client.post("/train", json=body), 422, "row 5", f"got {least - 1.0}")
    many = "x,y\n" + "".join(f"{row},{-5.0 - row}\n" for row in range(50))
    problem = assert_problem(trained.post_file(many, {"target_transform": kind}), 422, "and 49 more rows")
    assert (len(problem["errors"]), problem["error_count"]) == (20, 50)


def test_rows_are_numbered_as_in_the_upload(trained: Service) -> None:
    table = "x,y\n,1\n" + "".join(f"{row},{-1 if row == 4 else row + 1}\n" for row in range(20))
    answer = trained.post_file(table, {"target_transform": "log", "missing": "drop"})
    assert_problem(answer, 422, "row 5", "line 7", "got -1.0")


def test_a_transform_nobody_knows_is_refused(trained: Service) -> None:
    answer = trained.post_file(LOGNORMAL, {"target_transform": "sqrt"})
    assert_problem(answer, 422, "spec.target_transform", "none, log, log1p, yeo-johnson, rank-normal, auto", "'sqrt'")
