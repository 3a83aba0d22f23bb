"""Rows that belong together, in a whole training: new groups, settings and times get what the report promises."""

import numpy as np
import pytest

from core.data import Dataset
from core.errors import InvalidDataError, InvalidSpecError
from core.mean.closed import closed_form_mean
from core.mean.conjugate import Stopping
from core.mean.folds import Folds
from core.mean.full import full_mean
from core.predict.calibration import Calibration
from core.predict.distribution import PredictiveDistribution
from core.predict.metrics import scores, with_groups
from core.predict.model import ModelPredictor
from core.process.rows import Rows
from core.row_groups import Grouping, RowGroups
from core.spec import Adaptation, Calibrate, Effort, KernelChoice, MeanRows, TrainSpec
from core.train.block_theta import BLOCK_ROWS, blocks_of_groups
from core.train.optimise import heuristic
from core.train.report import TrainResult
from core.train.run import train
from tests.core.mean.cases import case
from tests.dense.kernel import kernel

FULL = {"effort": Effort.NORMAL, "mean_rows": MeanRows.AUTO, "kernel": KernelChoice.AUTO}
SPARSE = {"max_basis_size": 60, "adaptation": Adaptation(rounds=2, steps=10)}


@pytest.mark.parametrize("forward", [False, True])
def test_folds_in_closed_form_are_refits(forward: bool) -> None:
    at = case(1, n=90, folds=5)
    folds = Folds(fold=at.fold - 1, count=4, forward=True) if forward else at.folds
    found = closed_form_mean(at.rows, at.kernel, at.D, folds)
    for number in range(folds.count):
        inside = np.flatnonzero(folds.fold == number)
        rest = np.flatnonzero(folds.kept[:, 1 + number])
        assert not set(inside) & set(rest)
        K = kernel(at.params, at.rows.X, at.rows.X)
        C = K[np.ix_(rest, rest)] + np.diag(at.D[rest])
        k = K[np.ix_(rest, inside)]
        mean, latent = k.T @ np.linalg.solve(C, at.rows.y[rest]), np.diag(K)[inside]
        latent = latent - np.einsum("rm,rm->m", k, np.linalg.solve(C, k))
        np.testing.assert_allclose(found.mean.left_out[inside], mean, rtol=1e-7, atol=1e-8)
        np.testing.assert_allclose(found.latent_variance[inside], latent, rtol=1e-6, atol=1e-8)


def test_forward_folds_in_lockstep_are_those_of_the_closed_form() -> None:
    at = case(2, n=90, folds=5)
    folds = Folds(fold=at.fold - 1, count=4, forward=True)
    exact = closed_form_mean(at.rows, at.kernel, at.D, folds)
    found = full_mean(at.rows, at.kernel, at.D, at.Z, folds, stopping=Stopping(tolerance=1e-11, most=500))
    left = folds.left
    np.testing.assert_allclose(found.left_out[left], exact.mean.left_out[left], rtol=1e-5, atol=1e-6)


def subjects(seed: int, count: int, first: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Inputs, targets and subject of 8 rows each: age and weight tell the subject, whose level they do not."""
    random = np.random.default_rng([seed, first])
    subject = np.repeat(np.arange(first, first + count), 8)
    age, weight, level = (np.repeat(random.normal(size=count), 8) for _ in range(3))
    x = random.uniform(0.0, 6.0, len(subject))
    y = np.sin(x) + 0.5 * age + level + 0.1 * random.normal(size=len(x))
    return np.column_stack((age, weight, x)), y, subject


def covered(result: TrainResult, inputs: np.ndarray, targets: np.ndarray) -> float:
    """Share of fresh rows inside of their 95% intervals."""
    lower, upper = ModelPredictor(result.model).predict(inputs).interval(0.95)
    return float(np.mean((lower <= targets) & (targets <= upper)))


@pytest.mark.slow
@pytest.mark.parametrize("options", [FULL, SPARSE], ids=["full", "sparse"])
def test_new_groups_get_what_the_report_promises(options: dict[str, object]) -> None:
    """By rows the report says 94% and new subjects get less than 85%."""
    got, promised = [], []
    for seed in range(3):
        X, y, subject = subjects(seed, 40)
        groups = RowGroups.of(Grouping.GROUP, subject)
        result = train(Dataset(inputs=X, targets=y, row_groups=groups), TrainSpec(**options))  # type: ignore[arg-type]
        new, truth, _ = subjects(seed, 100, first=1_000)
        got.append(covered(result, new, truth))
        promised.append(result.report.leave_one_out.coverage["0.95"])
        assert result.report.splits.by == "group"
        assert result.report.splits.groups == 40
        assert (result.report.leave_one_out.nmse or 0.0) > 0.5
    assert np.mean(got) > 0.9
    assert abs(np.mean(got) - np.mean(promised)) < 0.05


@pytest.mark.slow
def test_theta_does_not_know_groups_by_heart() -> None:
    """Age tells each patient apart, so that a likelihood of all rows learns the patients; what age itself says is found
    where no two rows of a patient are in one likelihood."""
    random = np.random.default_rng(2)
    age, level = (np.repeat(values, 8) for values in (random.uniform(20.0, 80.0, 60), random.normal(size=60)))
    dose = random.uniform(0.0, 6.0, len(age))
    y = level + 0.06 * age + np.sin(dose) + 0.1 * random.normal(size=len(age))
    groups = RowGroups.of(Grouping.GROUP, np.repeat(np.arange(60), 8))
    dataset = Dataset(inputs=np.column_stack((age, dose)), targets=y, row_groups=groups)
    report = train(dataset, TrainSpec(**FULL)).report  # type: ignore[arg-type]
    assert any(each.taken and each.theta == "exact" for each in report.candidates)
    assert (report.leave_one_out.nmse or 1.0) < 0.75  # of which the patients' levels are .45
    assert report.hyperparameters.lengthscales[0] > 0.3  # of a standard deviation, with 60 patients


@pytest.mark.parametrize(("sizes", "across"), [((700, 700, 700), False), ((900, 900, 10), False), ((8,) * 60, True)])
def test_blocks_of_few_groups_are_of_near_rows(sizes: tuple[int, ...], across: bool) -> None:
    """Blocks without two rows of one group are as small as groups are few: no likelihood of all rows, nor of five."""
    group = np.repeat(np.arange(len(sizes)), sizes)
    groups = RowGroups.of(Grouping.GROUP, group)
    X = np.random.default_rng(0).normal(size=(len(group), 2))
    rows = Rows(X=X, y=X[:, 0], groups=np.arange(2))
    blocks = blocks_of_groups(rows, groups, heuristic(rows))
    assert max(map(len, blocks)) <= BLOCK_ROWS
    assert sum(map(len, blocks)) == len(group)
    assert all(len(np.unique(group[block])) == len(block) for block in blocks) == across


def test_few_groups_take_no_process_over_a_constant_by_chance() -> None:
    """Three groups of noise with levels: whatever two or three differences say."""
    random = np.random.default_rng(1)
    group = np.repeat(np.arange(3), 100)
    y = random.normal(size=300) + 3.0 * random.normal(size=3)[group]
    groups = RowGroups.of(Grouping.GROUP, group)
    dataset = Dataset(inputs=random.normal(size=(300, 2)), targets=y, row_groups=groups)
    report = train(dataset, TrainSpec(**FULL)).report  # type: ignore[arg-type]
    assert not any(each.taken and each.variance == "near" for each in report.candidates)


def test_standard_errors_by_group_do_not_count_rows_that_are_scored_beside() -> None:
    found = scores(
        np.arange(6.0), PredictiveDistribution(centre=np.zeros(6), variance=np.ones(6), calibration=Calibration())
    )
    grouped = with_groups(found, 2.0)
    assert grouped.nlpd_standard_error == pytest.approx(np.sqrt(2.0) * found.nlpd_standard_error)
    assert grouped.coverage_standard_error["0.95"] == pytest.approx(
        np.sqrt(2.0) * found.coverage_standard_error["0.95"]
    )


@pytest.mark.slow
@pytest.mark.parametrize("options", [FULL, SPARSE], ids=["full", "sparse"])
def test_settings_that_come_twice_are_left_out_together(options: dict[str, object]) -> None:
    """Pure noise uploaded twice is nothing that could be known: by rows 0% of fresh rows are covered."""
    got = []
    for seed in range(5):
        random = np.random.default_rng(seed)
        x, y = random.uniform(0.0, 3.0, (60, 1)), random.normal(size=60)
        result = train(Dataset(inputs=np.tile(x, (2, 1)), targets=np.tile(y, 2)), TrainSpec(**options))  # type: ignore[arg-type]
        assert result.report.splits.by == "equal inputs"
        assert result.report.splits.groups == 60
        assert (result.report.leave_one_out.nmse or 0.0) > 0.8
        assert any("120 of 120 rows have inputs that come more than once" in text for text in result.report.warnings)
        got.append(covered(result, random.uniform(0.0, 3.0, (500, 1)), random.normal(size=500)))
    assert np.mean(got) > 0.9


@pytest.mark.slow
def test_later_rows_get_what_the_report_promises() -> None:
    """A level that wanders: rows between others are predicted better than later ones, which the report says."""
    got, promised, told = [], [], 0
    for seed in range(6):
        random = np.random.default_rng(seed)
        day, x = np.arange(230.0), random.uniform(0.0, 6.0, 230)
        y = np.cumsum(0.2 * random.normal(size=230)) + np.sin(x) + 0.2 * random.normal(size=230)
        X, order = np.column_stack((day, x)), random.permutation(200)
        groups = RowGroups.of(Grouping.ORDER, day[order])
        result = train(Dataset(inputs=X[order], targets=y[order], row_groups=groups), TrainSpec(**FULL))  # type: ignore[arg-type]
        got.append(covered(result, X[200:220], y[200:220]))
        report = result.report
        promised.append(report.leave_one_out.coverage["0.95"])
        assert report.splits.by == "order"
        assert report.splits.later_nmse is not None
        assert report.holdout is not None
        assert report.holdout.rows == 20
        told += any("the error bars are those of later rows" in text for text in report.warnings)
    assert told >= 2
    assert np.mean(got) > 0.85
    assert abs(np.mean(promised) - np.mean(got)) < 0.1


@pytest.mark.slow
def test_groups_in_a_sparse_training_are_never_split() -> None:
    """Leave-one-out is not taken, whatever is asked, and the held-out rows are whole groups."""
    X, y, subject = subjects(3, 60)
    dataset = Dataset(inputs=X, targets=y, row_groups=RowGroups.of(Grouping.GROUP, subject))
    spec = TrainSpec(basis_size=5, calibrate=Calibrate.LOO, adaptation=Adaptation(rounds=1, steps=3))
    report = train(dataset, spec).report
    assert report.calibration.by == "cross-fitting"
    assert report.holdout is not None
    assert report.holdout.rows == 48
    assert report.holdout.coverage_standard_error["0.95"] == pytest.approx(np.sqrt(0.95 * 0.05 / 6))
    assert report.leave_one_out.coverage_standard_error["0.95"] == pytest.approx(np.sqrt(0.95 * 0.05 / 60))
    parts = [part for part in report.local_coverage.parts if part.by == "group"]
    assert not parts  # of 8 rows each: too few to tell


def test_what_does_not_go_with_groups_is_refused() -> None:
    X, y, subject = subjects(4, 10)
    whole = RowGroups.of(Grouping.GROUP, np.zeros(len(y)))
    with pytest.raises(InvalidDataError, match="all rows are of one group"):
        train(Dataset(inputs=X, targets=y, row_groups=whole), TrainSpec())
    groups = RowGroups.of(Grouping.GROUP, subject)
    with pytest.raises(InvalidSpecError, match="calibrate"):
        train(Dataset(inputs=X, targets=y, row_groups=groups), TrainSpec(calibrate=None))
