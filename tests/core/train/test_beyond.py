"""Training with rows beyond those that the run holds."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest

from core.data import Dataset, Standardization
from core.errors import InvalidDataError, InvalidSpecError
from core.hyperparameters import Hyperparameters
from core.numeric.shards import ShardedRows, tree_total
from core.predict.model import ModelPredictor
from core.predict.predictor import Predictor
from core.predict.transforms import Transform
from core.process.rows import Rows, on_shard
from core.sparse.factors import factorise, first_sums
from core.sparse.leave_one_out import leave_one_out
from core.sparse.posterior import posterior
from core.sparse.scheme import scheme
from core.spec import (
    Approximation,
    Artefact,
    BoundsRequest,
    Effort,
    MeanRows,
    Noise,
    TargetTransform,
    TrainSpec,
    Variance,
)
from core.train.beyond import admits, widened
from core.train.run import train
from core.train.state import NewRows
from core.train.update import update

pytestmark = pytest.mark.usefixtures("short_search")


@dataclass(frozen=True, eq=False)
class Pieces:
    """Rows in memory that are only summed, in pieces; what they were asked for."""

    dataset: Dataset
    pieces: int
    units: list[Standardization]

    @property
    def count(self) -> int:
        return len(self.dataset.targets)

    @property
    def target_range(self) -> tuple[float, float]:
        return float(self.dataset.targets.min()), float(self.dataset.targets.max())

    def scatter(self, unit: Standardization, transform: Transform) -> ShardedRows:
        self.units.append(unit)
        X, y = unit.inputs(self.dataset.inputs), unit.targets(transform.forward(self.dataset.targets))
        cuts = np.array_split(np.arange(len(y)), self.pieces)
        return _Sums([Rows(X=X[cut], y=y[cut], groups=self.dataset.groups) for cut in cuts])


@dataclass(frozen=True, eq=False)
class _Sums:
    pieces: Sequence[Rows]

    def total(self, work, size, least):  # type: ignore[no-untyped-def]
        return tree_total(lambda rows: on_shard(rows, work, size, least), self.pieces, 1)


def surface(rows: int, seed: int) -> Dataset:
    random = np.random.default_rng(seed)
    X = random.uniform(-2.0, 2.0, (rows, 2))
    y = 3.0 + np.sin(2.0 * X[:, 0]) * X[:, 1] + 0.1 * random.standard_normal(rows)
    return Dataset(inputs=X, targets=y)


def joined(first: Dataset, second: Dataset) -> Dataset:
    return Dataset(
        inputs=np.vstack((first.inputs, second.inputs)), targets=np.concatenate((first.targets, second.targets))
    )


THETA = Hyperparameters(lengthscales=np.array([0.7, 1.3]), signal_variance=1.0, noise_variance=0.02, bias_variance=0.5)


@pytest.mark.parametrize("approximation", list(Approximation))
def test_sums_of_rows_elsewhere_make_the_factors_of_all_rows(approximation: Approximation) -> None:
    found = scheme(approximation, 0.5)
    data = surface(400, 0)
    whole = Rows(X=data.inputs, y=data.targets, groups=data.groups)
    here, there = whole.take(np.arange(150)), whole.take(np.arange(150, 400))
    Z = data.inputs[:30]
    expected = factorise(whole, Z, THETA, found)
    made = factorise(here, Z, THETA, found, beyond=first_sums(there, Z, THETA, found))
    for name in ("information", "LB", "c", "alpha"):
        np.testing.assert_allclose(getattr(made, name), getattr(expected, name), rtol=1e-8, atol=1e-9)
    assert len(made.e) == 150
    np.testing.assert_allclose(made.e, expected.e[:150])


def test_the_model_rests_on_all_rows_and_the_report_on_those_that_are_held() -> None:
    sample, rest = surface(600, 1), surface(1500, 2)
    beyond = Pieces(rest, 5, [])
    spec = TrainSpec(basis_size=40, start=THETA, adaptation=None, standardize=False)
    result = train(sample, spec, beyond=beyond)
    assert len(beyond.units) == 1  # the rows that are learnt from, and all of them, are in the same units
    unit = beyond.units[0]
    whole = joined(sample, rest)
    rows = Rows(X=unit.inputs(whole.inputs), y=unit.targets(whole.targets), groups=whole.groups)
    Z = unit.inputs(sample.inputs[result.selection.indices])
    factors = factorise(rows, Z, THETA, scheme(spec.approximation, spec.power))
    expected = Predictor(posterior(factors, unit.raw_inputs(Z), whole.groups, unit)).moments(rest.inputs[:200])
    found = Predictor(result.model.posterior).moments(rest.inputs[:200])
    np.testing.assert_allclose(found.mean, expected.mean, rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(found.latent_variance, expected.latent_variance, rtol=1e-5, atol=1e-9)
    assert result.report.rows == 2100
    assert result.report.holdout is not None
    assert result.report.calibration.by == "leave-one-out"
    assert result.state is not None
    assert result.state.trained == 2100
    assert not result.state.has_rows
    alone = train(sample, spec)
    fresh = surface(2000, 3)
    error, before = (
        np.mean(np.square(Predictor(each.model.posterior).moments(fresh.inputs).mean - fresh.targets))
        for each in (result, alone)
    )
    assert error < before


def test_the_calibration_is_of_the_factors_of_all_rows() -> None:
    """Each held row is left out of all others, those beyond included: as in a run that holds them all."""
    sample, rest = surface(700, 4), surface(700, 5)
    spec = TrainSpec(basis_size=60, start=THETA, adaptation=None, standardize=False, noise=Noise.CONSTANT)
    result = train(sample, spec, beyond=Pieces(rest, 3, []))
    fresh = surface(4000, 6)
    lower, upper = ModelPredictor(result.model).predict(fresh.inputs).interval(0.95)
    assert 0.91 < np.mean((lower <= fresh.targets) & (fresh.targets <= upper)) < 0.97  # of 640 errors
    whole = joined(sample, rest)
    rows = Rows(X=whole.inputs, y=whole.targets - sample.targets.mean(), groups=whole.groups)
    factors = factorise(rows, sample.inputs[result.selection.indices], THETA, scheme(spec.approximation, spec.power))
    mean, _ = leave_one_out(factors)
    assert result.state is not None
    assert result.state.left_out is not None
    errors = (rows.y - mean)[result.state.left_out.places]
    np.testing.assert_allclose(result.state.left_out.error, errors, atol=2e-3)  # the unit is of the rows learnt from


def test_new_rows_add_to_the_sums_of_all_rows() -> None:
    """An update is the fit of sample, rows beyond and new rows together, and rows themselves cannot be forgotten."""
    sample, rest, new = surface(400, 10), surface(500, 11), surface(50, 12)
    beyond = Pieces(rest, 2, [])
    spec = TrainSpec(
        basis_size=25, start=THETA, adaptation=None, standardize=False, target_transform=TargetTransform.NONE
    )
    result = train(sample, spec, beyond=beyond)
    assert result.state is not None
    rows = NewRows(inputs=new.inputs, targets=new.targets, numbers=np.arange(900, 950))
    updated = update(result.model, result.state, rows, spec)
    unit, everything = beyond.units[0], joined(joined(sample, rest), new)
    whole = Rows(X=unit.inputs(everything.inputs), y=unit.targets(everything.targets), groups=everything.groups)
    Z = unit.inputs(sample.inputs[result.selection.indices])
    factors = factorise(whole, Z, THETA, scheme(spec.approximation, spec.power))
    expected = Predictor(posterior(factors, unit.raw_inputs(Z), everything.groups, unit)).moments(new.inputs)
    found = Predictor(updated.model.posterior).moments(new.inputs)
    np.testing.assert_allclose(found.mean, expected.mean, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(found.latent_variance, expected.latent_variance, rtol=1e-4, atol=1e-8)
    assert updated.state.rows == 950
    assert len(updated.state.numbers) == 450  # nothing for each row beyond
    with pytest.raises(InvalidDataError):
        update(result.model, result.state, rows, spec, forget=np.array([600]))


def test_targets_beyond_the_scale_of_the_sample_take_its_transform_and_bounds_away() -> None:
    random = np.random.default_rng(7)
    X = random.uniform(-2.0, 2.0, (200, 1))
    sample = Dataset(inputs=X, targets=np.exp(X[:, 0] + 0.1 * random.standard_normal(200)))
    spec = TrainSpec(basis_size=10, target_transform=TargetTransform.AUTO)
    spec = replace(spec, adaptation=None)
    positive = Pieces(Dataset(inputs=X, targets=sample.targets * 1.01), 2, [])
    assert train(sample, spec, beyond=positive).model.transform.kind is TargetTransform.LOG
    targets = sample.targets.copy()
    targets[3] = -1.0
    negative = Pieces(Dataset(inputs=X, targets=targets), 2, [])
    model = train(sample, spec, beyond=negative).model
    assert model.transform.kind is TargetTransform.NONE
    assert model.transform.lowest == -np.inf
    with pytest.raises(InvalidDataError, match="log needs targets above 0; one is -1"):
        train(sample, replace(spec, target_transform=TargetTransform.LOG), beyond=negative)
    bounded = Transform(lowest=0.0, highest=20.0)
    assert not admits(Transform(kind=TargetTransform.LOG), negative)
    assert widened(bounded, negative).lowest == -np.inf
    assert widened(bounded, negative).highest == 20.0


def test_what_asks_more_of_each_row_is_refused() -> None:
    sample, rest = surface(100, 8), surface(100, 9)
    spec = TrainSpec(basis_size=5)
    asked = (
        replace(spec, artefact=Artefact.COMPACT),
        replace(spec, bounds=BoundsRequest(rows=(1,))),
        TrainSpec(effort=Effort.NORMAL, mean_rows=MeanRows.AUTO, variance=Variance.NEAR),
    )
    for each in asked:
        with pytest.raises(InvalidSpecError, match="held in memory"):
            train(sample, each, beyond=Pieces(rest, 2, []))
