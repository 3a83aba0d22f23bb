"""Intervals, quantiles, median and support over HTTP: consistent with each other, and true of new rows."""

import random
from collections.abc import Iterator
from statistics import NormalDist, fmean
from typing import Any

import numpy as np
import pytest

from app.storage import artefact
from tests.app.routes.problems import assert_problem
from tests.app.routes.service import QUICK, Service, cells, curve, even, louder, running

LEVELS = [0.5, 0.8, 0.9, 0.95, 0.99]
MODELS = ("even", "loo", "plain", "skewed", "varied")
SPEC: dict[str, Any] = QUICK | {"basis_size": 12, "noise": "constant", "calibrate": "auto"}
NOISY = {"signal_variance": 1.0, "bias_variance": 1.0, "noise_variance": 0.4, "lengthscales": {"x": 1.0}}
"""Where no time is to go into finding them."""
PLACES = [[0.1], [1.7], [4.4], [9.0], [60.0]]


def skewed(chance: random.Random, _: float) -> float:
    return chance.expovariate(2.0)


SPECS: dict[str, dict[str, Any]] = {
    "even": {},
    "loo": {"calibrate": "loo"},
    "plain": {"calibrate": False},
    "skewed": {"intervals": "asymmetric", "hyperparameters": NOISY},
    "skewed-symmetric": {"hyperparameters": NOISY},
    "varied": {"noise": "auto", "hyperparameters": NOISY},
    "varied-constant": {"hyperparameters": NOISY},
}
TABLES = {
    **dict.fromkeys(("even", "loo", "plain"), curve(300, even)),
    **dict.fromkeys(("skewed", "skewed-symmetric"), curve(600, skewed)),
    **dict.fromkeys(("varied", "varied-constant"), curve(600, louder)),
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Models by the noise they learnt from, and by how their error bars were calibrated."""
    with running(tmp_path_factory.mktemp("service")) as service:
        for name, table in TABLES.items():
            job = service.train(table, model=name, **SPEC | SPECS[name])
            assert job["state"] == "succeeded", job
        yield service


def report_of(service: Service, model: str) -> dict[str, Any]:
    report: dict[str, Any] = service.client.get(f"/models/{model}/versions/1").json()["report"]
    return report


@pytest.mark.parametrize("model", MODELS)
def test_a_wider_level_holds_a_narrower_one(trained: Service, model: str) -> None:
    found = trained.ask(model, PLACES, interval=LEVELS, include=["median"])
    assert found["interval"] == LEVELS
    lower, upper = np.array(found["lower"]), np.array(found["upper"])
    assert lower.shape == upper.shape == (len(LEVELS), len(PLACES))
    assert (np.diff(lower, axis=0) < 0).all()
    assert (np.diff(upper, axis=0) > 0).all()
    assert (lower[0] < found["median"]).all()
    assert (upper[0] > found["median"]).all()


@pytest.mark.parametrize("model", MODELS)
def test_several_at_once_are_what_each_is_alone(trained: Service, model: str) -> None:
    several = trained.ask(model, PLACES, interval=[0.9, 0.5], quantiles=[0.7, 0.1])
    for place, level in enumerate((0.9, 0.5)):
        alone = trained.ask(model, PLACES, interval=level)
        assert alone["interval"] == level
        assert (alone["lower"], alone["upper"]) == (several["lower"][place], several["upper"][place])
        assert (alone["mean"], alone["std"]) == (several["mean"], several["std"])
    one = trained.ask(model, PLACES, interval=[0.9], quantiles=[0.1])
    assert (one["interval"], one["lower"], one["upper"]) == ([0.9], several["lower"][:1], several["upper"][:1])
    assert one["quantile_values"] == several["quantile_values"][1:]
    assert several["quantiles"] == [0.7, 0.1]
    none = trained.ask(model, PLACES, interval=[])
    assert (none["interval"], none["lower"], none["upper"]) == ([], [], [])


@pytest.mark.parametrize("model", MODELS)
def test_quantiles_are_the_ends_of_intervals(trained: Service, model: str) -> None:
    found = trained.ask(
        model, PLACES, interval=[0.95, 0.5], quantiles=[0.025, 0.25, 0.5, 0.75, 0.975], include=["median"]
    )
    quantiles = np.array(found["quantile_values"])
    assert (np.diff(quantiles, axis=0) > 0).all()
    ends = [found["lower"][0], found["lower"][1], found["upper"][1], found["upper"][0]]
    np.testing.assert_allclose(quantiles[[0, 1, 3, 4]], ends, rtol=1e-9, atol=1e-12)
    assert found["quantile_values"][2] == found["median"]


@pytest.mark.parametrize("model", ["even", "loo", "plain", "varied"])
def test_symmetric_intervals_are_so_about_mean_and_median(trained: Service, model: str) -> None:
    found = trained.ask(model, PLACES, interval=0.9, include=["median"])
    assert found["median"] == found["mean"]
    mean, lower, upper = (np.array(found[name]) for name in ("mean", "lower", "upper"))
    np.testing.assert_allclose(upper - mean, mean - lower, rtol=1e-9)


def test_without_calibration_quantiles_are_those_of_a_normal(trained: Service) -> None:
    found = trained.ask("plain", PLACES, interval=[0.9, 0.999999], quantiles=[1e-6, 0.3])
    mean, std = np.array(found["mean"]), np.array(found["std"])
    normal = NormalDist()
    for lower, upper, level in zip(found["lower"], found["upper"], (0.9, 0.999999), strict=True):
        z = normal.inv_cdf(0.5 + level / 2)
        np.testing.assert_allclose(lower, mean - z * std, rtol=1e-9)
        np.testing.assert_allclose(upper, mean + z * std, rtol=1e-9)
    for values, probability in zip(found["quantile_values"], (1e-6, 0.3), strict=True):
        np.testing.assert_allclose(values, mean + normal.inv_cdf(probability) * std, rtol=1e-9)
    told = report_of(trained, "plain")["calibration"]
    assert told == {
        "by": "nothing",
        "rows": 0,
        "latent_scale": 1.0,
        "noise_scale": 1.0,
        "most_level": 1.0,
        "tail_freedom": None,
        "std_factor": 1.0,
        "noise_gain": None,
    }


def misses(service: Service, model: str, fresh: str, level: float) -> tuple[float, float]:
    """Shares of the rows of a table below and above their intervals."""
    x, y = cells(fresh)
    found = service.ask(model, [[value] for value in x], interval=level)
    return (
        fmean(truth < low for truth, low in zip(y, found["lower"], strict=True)),
        fmean(truth > high for truth, high in zip(y, found["upper"], strict=True)),
    )


@pytest.mark.parametrize("level", [0.5, 0.8, 0.9, 0.95, 0.99])
def test_intervals_hold_new_rows_as_often_as_they_say(trained: Service, level: float) -> None:
    fresh = curve(4000, even, seed=1)
    for model in ("even", "loo"):
        inside = 1.0 - sum(misses(trained, model, fresh, level))
        assert inside == pytest.approx(level, abs=3.5 * (level * (1 - level) / 300) ** 0.5), model


def test_asymmetric_intervals_follow_skewed_errors(trained: Service) -> None:
    fresh = curve(4000, skewed, seed=1)
    below, above = misses(trained, "skewed", fresh, 0.9)
    assert below == pytest.approx(0.05, abs=0.03)
    assert above == pytest.approx(0.05, abs=0.03)
    below, above = misses(trained, "skewed-symmetric", fresh, 0.9)
    assert below < 0.001  # right in all, but not on either side
    assert above == pytest.approx(0.1, abs=0.04)
    found = trained.ask("skewed", PLACES, interval=0.9, include=["median"])
    for mean, median, lower, upper in zip(*(found[n] for n in ("mean", "median", "lower", "upper")), strict=True):
        assert median < mean
        assert upper - mean > 1.5 * (mean - lower)


def test_noise_that_varies_is_seen_where_it_is(trained: Service) -> None:
    quiet, loud = [[x / 10] for x in range(5, 26)], [[x / 10] for x in range(35, 56)]
    ratio = fmean(trained.ask("varied", loud)["std"]) / fmean(trained.ask("varied", quiet)["std"])
    assert 6 < ratio < 24  # 12 in truth
    ratio = fmean(trained.ask("varied-constant", loud)["std"]) / fmean(trained.ask("varied-constant", quiet)["std"])
    assert ratio == pytest.approx(1.0, abs=0.05)
    fresh = curve(4000, louder, seed=1).split()
    for low, high in ((0.0, 2.5), (3.5, 6.0)):
        some = "\n".join(["x,y", *(line for line in fresh[1:] if low < float(line.split(",")[0]) < high)])
        assert 1.0 - sum(misses(trained, "varied", some, 0.9)) == pytest.approx(0.9, abs=0.06)
        constant = sum(misses(trained, "varied-constant", some, 0.9))
        assert constant == 0.0 if high < 3 else constant > 0.13
    varying, same = report_of(trained, "varied"), report_of(trained, "varied-constant")
    assert varying["calibration"]["noise_gain"] > 0.3
    assert same["calibration"]["noise_gain"] is None
    assert varying["holdout"]["nlpd"] < same["holdout"]["nlpd"] - 0.3


@pytest.mark.parametrize("model", MODELS)
def test_a_row_never_depends_on_the_others_however_it_is_asked(trained: Service, model: str) -> None:
    chance = random.Random(3)
    rows = [[chance.uniform(-1, 9)] for _ in range(1100)]
    more = {"interval": [0.5, 0.9], "quantiles": [0.2], "include": ["latent_std", "median", "support"]}
    together = trained.ask(model, rows, **more)
    for place in (0, 1, 511, 512, 1099):
        alone = trained.ask(model, [rows[place]], **more)
        for name in ("mean", "std", "latent_std", "median", "support"):
            assert alone[name][0] == together[name][place], name
        for name in ("lower", "upper", "quantile_values"):
            assert [part[0] for part in alone[name]] == [part[place] for part in together[name]], name


def test_support_is_0_at_the_data_and_1_far_away(trained: Service) -> None:
    for model in MODELS:
        x, _ = cells(TABLES[model])
        at_data = trained.ask(model, [[value] for value in x], include=["support"])["support"]
        assert 0 <= min(at_data) <= max(at_data) < 0.1, model
        away = trained.ask(model, [[6.0 + step] for step in range(40)], include=["support"])["support"]
        assert (np.diff(away) > -1e-12).all(), model  # near 1 only rounding tells neighbours apart
        assert away[-1] == pytest.approx(1.0, abs=1e-9), model


def test_sor_knows_no_support(trained: Service) -> None:
    trained.train(curve(100, even), model="sor", **SPEC | {"approximation": "sor"})
    answer = trained.client.post("/predict", json={"model": "sor", "rows": [[1]], "include": ["support"]})
    assert_problem(answer, 422, "include", "sor", "no support")
    assert trained.ask("sor", [[1.0]], include=["median"])["median"]


@pytest.mark.parametrize("model", ["even", "skewed"])
def test_a_level_beyond_the_rows_is_answered_by_the_tail(trained: Service, model: str) -> None:
    told = report_of(trained, model)["calibration"]
    most, rows = told["most_level"], told["rows"]
    assert most == pytest.approx(rows / (rows + 1) if model == "even" else 1 - 2 / (rows + 1))
    assert told["tail_freedom"] > 2
    levels = [most, 0.999, 0.9999]
    found = trained.ask(model, PLACES, interval=levels, quantiles=[0.00005, 0.99995])
    assert found["interval_basis"] == ["conformal", "tail", "tail"]
    lower, upper = np.array(found["lower"]), np.array(found["upper"])
    assert (np.diff(lower, axis=0) <= 0).all()
    assert (np.diff(upper, axis=0) >= 0).all()
    np.testing.assert_allclose(found["quantile_values"], [lower[2], upper[2]], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("model", MODELS)
def test_a_std_agrees_with_the_interval(trained: Service, model: str) -> None:
    found = trained.ask(model, PLACES, include=["latent_std"])
    std, latent, lower, upper = (np.array(found[name]) for name in ("std", "latent_std", "lower", "upper"))
    ratio = 2 * 1.96 * std / (upper - lower)
    assert (ratio >= 0.7).all()
    assert (ratio <= 1.4).all()
    assert (latent <= std).all()


def test_the_page_of_a_version_tells_how_it_is_calibrated(trained: Service) -> None:
    for model, by, rows in (
        ("even", "cross-fitting", 300),
        ("loo", "leave-one-out", 300 - 12),
        ("plain", "nothing", 0),
    ):
        page = trained.client.get(f"/models/{model}/versions/1").json()
        told, kept = page["report"]["calibration"], page["calibration"]
        assert (told["by"], told["rows"], kept["rows"]) == (by, rows, rows)
        for name in ("latent_scale", "noise_scale"):
            assert kept[name] == told[name] > 0
        data = trained.client.get(f"/models/{model}/versions/1/artefact").content
        assert kept == artefact.load(data).calibration.to_json()
        assert page["target_transform"]["kind"] == "none"
    assert kept["probabilities"] == kept["quantiles"] == []
    kept = trained.client.get("/models/skewed/versions/1").json()["calibration"]
    assert kept["intervals"] == "asymmetric"
    assert kept["probabilities"] == sorted(set(kept["probabilities"]))
    assert kept["quantiles"] == sorted(kept["quantiles"])


@pytest.mark.parametrize("model", MODELS)
def test_scores_come_with_their_standard_errors(trained: Service, model: str) -> None:
    report = report_of(trained, model)
    for scores in (report["holdout"], report["leave_one_out"]):
        assert list(scores["coverage"]) == ["0.5", "0.8", "0.9", "0.95", "0.99"]
        for name, error in scores["coverage_standard_error"].items():
            level = float(name)
            assert error == pytest.approx((level * (1 - level) / scores["rows"]) ** 0.5)
            assert scores["coverage"][name] == pytest.approx(level, abs=4 * error + 1 / scores["rows"])
        widths = list(scores["mean_width"].values())
        assert widths == sorted(widths)
        assert list(scores["mean_width"]) == list(scores["coverage"])
        shares = list(scores["reliability"].values())
        assert shares == sorted(shares)
        assert 0 < scores["crps"] < scores["rmse"]
        assert scores["nlpd_standard_error"] > 0
        assert scores["crps_standard_error"] > 0
