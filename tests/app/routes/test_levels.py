"""Categories of hundreds of levels over HTTP: shops of a dozen rows each, whose sales differ by shop."""

from typing import Any

import numpy as np
import pytest

from tests.app.routes.service import QUICK, Service

SHOPS, ROWS, NOISE = 140, 12, 0.5


def shops(seed: int, *, spread: float, count: int = SHOPS) -> tuple[str, list[list[str]], np.ndarray[Any, Any]]:
    """A table of shops in no order; rows to ask for, 4 of each shop, and their truths."""
    chance = np.random.default_rng(seed)
    effect = spread * chance.standard_normal(count)
    place = chance.permutation(np.repeat(np.arange(count), ROWS))
    y = effect[place] + NOISE * chance.standard_normal(len(place))
    lines = [f"shop {shop},{value!r}" for shop, value in zip(place.tolist(), y.tolist(), strict=True)]
    asked = np.repeat(np.arange(count), 4)
    truth = effect[asked] + NOISE * chance.standard_normal(len(asked))
    return "shop,y\n" + "\n".join(lines) + "\n", [[f"shop {shop}"] for shop in asked.tolist()], truth


def scores(service: Service, seed: int, *, spread: float, count: int = SHOPS) -> tuple[float, float, dict[str, Any]]:
    """NMSE and coverage of 95% intervals on new rows of a model trained as it comes, and its report."""
    table, asked, truth = shops(seed, spread=spread, count=count)
    job = service.train(table, model="shops")
    found = service.ask("shops", asked)
    mean, lower, upper = (np.array(found[name]) for name in ("mean", "lower", "upper"))
    nmse = float(np.mean(np.square(truth - mean)) / np.var(truth))
    return nmse, float(np.mean((lower <= truth) & (truth <= upper))), job["result"]["report"]


@pytest.mark.slow
def test_shops_are_told_apart_by_default(empty: Service) -> None:
    """The noise alone leaves .0031 of the variance, .0033 where a shop's mean is that of 12 rows; 50 shops told apart
    left .62. A share of 560 rows is known to .009, that of a fit to 1,680 rows to about twice that."""
    nmse, coverage, report = scores(empty, 0, spread=9.0)
    assert nmse < 0.005
    assert 0.92 <= coverage <= 0.98
    assert len(report["columns"][0]["levels"]) == SHOPS
    about = [warning for warning in report["warnings"] if "shop" in warning]
    assert len(about) == 1
    assert 'set "groups": "shop"' in about[0]  # new rows may be of other shops, which nobody has said


@pytest.mark.slow
def test_shops_that_do_not_differ_do_no_harm(empty: Service) -> None:
    """Nothing of a row's own target is in its level: noise stays noise, and the error bars as wide."""
    nmse, coverage, report = scores(empty, 1, spread=0.0, count=60)
    assert nmse < 1.05  # the means of 720 rows and of these 240 differ by .08 standard deviations, .006 of a variance
    assert 0.90 <= coverage <= 0.99  # of 240 rows, .014 by chance
    assert report["holdout"]["nmse"] > 0.9


def test_fewer_levels_may_be_asked_for(empty: Service) -> None:
    table, _, _ = shops(0, spread=9.0, count=30)
    job = empty.train(table, model="few", max_levels=20, **QUICK)
    report = job["result"]["report"]
    assert (len(report["columns"][0]["levels"]), report["columns"][0]["others_grouped"]) == (20, True)
    others = [[name] for name in ("shop 29", "nowhere")]
    assert len(set(empty.ask("few", others)["mean"])) == 1
    assert empty.client.get("/models/few/versions/1").json()["spec"]["max_levels"] == 20


def test_an_unseen_shop_is_answered_with_the_spread_of_shops(empty: Service) -> None:
    """The stored model gives the mean of an average shop; 30 of them tell their spread of 9 to 13%."""
    table, asked, truth = shops(0, spread=9.0, count=30)
    empty.train(table, model="open", unseen="prior", **QUICK | {"basis_size": 40})
    found = empty.ask("open", [["nowhere"], *asked])
    shop_spread = float(np.std(truth))
    assert abs(found["mean"][0] - np.mean(truth)) < shop_spread
    assert 0.5 * shop_spread < found["std"][0] < 2.0 * shop_spread
    assert found["std"][0] > 2.0 * max(found["std"][1:])


@pytest.mark.slow
@pytest.mark.parametrize(("spread", "most"), [(9.0, 0.005), (0.5, 0.6)])
def test_error_bars_of_shops_are_honest(empty: Service, spread: float, most: float) -> None:
    """Four draws of strong effects, or of effects as large as the noise, of which .5 + 1/26 is what can be known."""
    found = [scores(empty, seed, spread=spread)[:2] for seed in range(4)]
    nmse, coverage = np.mean(found, axis=0)
    assert nmse < most
    assert 0.92 <= coverage <= 0.98
