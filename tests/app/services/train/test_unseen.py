"""An unseen level: the mean of an average one, and an error bar that holds the spread between levels."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from app.services.train.unseen import place_unseen
from app.tables import Schema, from_columns
from app.tables.schema.fitting import fit_schema
from core.arrays import FloatArray
from core.data import Dataset
from core.predict.model import Model, ModelPredictor
from core.spec import Adaptation, Calibrate, Noise, TrainSpec
from core.train.run import train

NOISE = 0.5


class Shops:
    """y = 2 sin(3 x) + an effect of the shop + noise; a model of some shops, and rows of as many others."""

    def __init__(self, count: int, rows: int, spread: float, *, unseen: str = "prior", seed: int = 0) -> None:
        self.basis = min(2 * count, 200)
        chance = np.random.default_rng(seed)
        effect = spread * chance.standard_normal(2 * count)
        shop = np.repeat(np.arange(2 * count), rows)
        self.x = chance.uniform(-1, 1, len(shop))
        self.y = effect[shop] + 2 * np.sin(3 * self.x) + NOISE * chance.standard_normal(len(shop))
        self.names = [f"shop {number}" for number in shop.tolist()]
        known = count * rows
        self.columns = {"x": self.x[:known].tolist(), "shop": self.names[:known], "y": self.y[:known].tolist()}
        self.schema, self.prepared = fit_schema(from_columns(self.columns), unseen=unseen)
        self.new = slice(known, None)

    def model(self) -> Model:
        """Trained in two rounds: what the error bars of known levels come to is tested elsewhere."""
        prepared = self.prepared
        dataset = Dataset(
            inputs=prepared.inputs, targets=prepared.targets, groups=prepared.groups, indicator=prepared.indicator
        )
        spec = TrainSpec(
            adaptation=Adaptation(rounds=2),
            basis_size=self.basis,
            holdout=0.0,
            noise=Noise.CONSTANT,
            calibrate=Calibrate.LOO,
        )
        return train(dataset, spec).model

    def answer(self, model: Model, schema: Schema, rows: slice) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Mean and 95% interval of rows."""
        cells: list[list[Any]] = [list(row) for row in zip(self.x[rows].tolist(), self.names[rows], strict=True)]
        found = ModelPredictor(model).predict(schema.encode_rows(cells))
        return (found.centre, *found.interval(0.95))


def test_the_spread_between_levels_is_in_the_error_bar() -> None:
    """30 new shops: their share inside is known to .04, and the spread of 30 known ones to 13%."""
    shops = Shops(30, 15, 2.0)
    model = shops.model()
    placed = place_unseen(shops.schema, model, shops.prepared.inputs)
    mean, lower, upper = shops.answer(model, placed, shops.new)
    y = shops.y[shops.new]
    assert 0.82 <= np.mean((lower <= y) & (y <= upper)) <= 1.0
    assert 6.0 < np.mean(upper - lower) < 12.0  # 2 x 1.96 x sqrt(2^2 + .5^2) is 8.1
    assert np.mean(np.square(y - mean)) < 1.1 * np.mean(np.square(y - y.mean())) - 1.5  # x is used: its part is 2 of 6
    known = slice(0, len(shops.prepared.targets))
    ours, theirs = (shops.answer(model, schema, known)[0] for schema in (placed, shops.schema))
    assert ours.tobytes() == theirs.tobytes()


def test_levels_that_do_not_differ_add_nothing() -> None:
    shops = Shops(30, 10, 0.0)
    model = shops.model()
    placed = place_unseen(shops.schema, model, shops.prepared.inputs)
    _, lower, upper = shops.answer(model, placed, shops.new)
    assert np.mean(upper - lower) < 1.25 * 2 * 1.96 * NOISE


def test_few_levels_and_refused_ones_stay_as_they_are() -> None:
    for count, unseen in ((3, "prior"), (8, "error")):
        shops = Shops(count, 6, 2.0, unseen=unseen)
        assert place_unseen(shops.schema, shops.model(), shops.prepared.inputs) == shops.schema


def test_a_group_of_rare_levels_stands_for_unseen_ones() -> None:
    shops = Shops(12, 6, 2.0)
    schema, prepared = fit_schema(from_columns(shops.columns), unseen="prior", max_levels=8)
    shops.prepared = prepared
    assert place_unseen(schema, shops.model(), prepared.inputs) == schema


@pytest.mark.slow
def test_coverage_of_unseen_levels_over_draws() -> None:
    for count, rows, spread in ((100, 6, 2.0), (20, 30, 2.0), (100, 6, 0.3)):
        shares = []
        for seed in range(4):
            shops = Shops(count, rows, spread, seed=seed)
            model = shops.model()
            placed = place_unseen(shops.schema, model, shops.prepared.inputs)
            _, lower, upper = shops.answer(model, placed, shops.new)
            y = shops.y[shops.new]
            shares.append(np.mean((lower <= y) & (y <= upper)))
        assert 0.90 <= np.mean(shares) <= 0.99  # four draws of 20 shops: .03 by chance


def test_every_other_feature_keeps_its_place() -> None:
    """The columns of a block are found among others, before and after."""
    shops = Shops(8, 10, 2.0)
    columns = {"size": ["S", "L", "M", "XL", "XS"] * 16, **shops.columns, "z": shops.columns["x"]}
    schema, prepared = fit_schema(from_columns({**columns, "y": columns.pop("y")}), unseen="prior")
    shops.prepared = prepared
    placed = place_unseen(schema, shops.model(), prepared.inputs)
    assert [feature.unseen_value is None for feature in placed.features] == [False, True, False, True]
    bare = [replace(feature, unseen_value=None) for feature in placed.features]
    assert tuple(bare) == schema.features
    row: list[Any] = ["new", 0.5, "shop 3", 1.0]
    encoded = placed.encode_rows([row])[0]
    assert np.count_nonzero(encoded[:5]) == 5
    assert encoded[6:14].tolist() == [1.0 if name == "shop 3" else 0.0 for name in schema.features[2].levels]
