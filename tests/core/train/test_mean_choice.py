"""core/train/mean_choice.py in whole runs: against the full process, compared with the basis, resumed, cancelled."""

import json
from typing import Any

import numpy as np
import pytest

from core.arrays import FloatArray
from core.data import Dataset, standardization
from core.errors import InvalidSpecError
from core.predict.model import ModelPredictor
from core.spec import Artefact, MeanRows, Noise, Refinement, TrainSpec
from core.train import mean_choice as mean
from core.train.mean_gain import LEAST_GAIN
from core.train.progress import Phase, Progress
from core.train.report import TrainResult
from core.train.run import CONSTANT_MEAN, FIXED_MEAN, train
from tests.core.problems import hyperparameters, oracle_params
from tests.core.runs import QUICK, START, assert_same_bits, assert_same_model, checkpoints_of, table
from tests.dense.kernel import kernel
from tests.dense.mean import full_weights, subset_weights

pytestmark = pytest.mark.usefixtures("short_search")

FIXED: dict[str, Any] = {"basis_size": 10, "adaptation": None, "start": START, "noise": "constant"}
WAVES: dict[str, Any] = {
    "basis_size": 12,
    "adaptation": None,
    "start": hyperparameters([0.4, 0.5], signal_variance=1.0, bias_variance=0.1, noise_variance=0.02),
}
WAYS = ["closed form", "iterations"]


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways to solve for all rows, on tables that are small for either."""
    if request.param == "iterations":
        monkeypatch.setattr(mean, "CLOSED_ROWS", 0)
    return str(request.param)


def waves(rows: int, *, noise: float = 0.1, seed: int = 0) -> Dataset:
    """A function of two columns that a dozen basis vectors do not follow, whose noise is the same everywhere."""
    random = np.random.default_rng(seed)
    X = random.uniform(-2, 2, (rows, 2))
    y = np.sin(4 * X[:, 0]) * np.cos(3 * X[:, 1])
    return Dataset(inputs=X, targets=y + noise * random.normal(size=rows))


def standardized(dataset: Dataset) -> tuple[FloatArray, FloatArray]:
    unit = standardization(dataset)
    return unit.inputs(dataset.inputs), unit.targets(dataset.targets)


def noise_of(result: TrainResult, dataset: Dataset) -> FloatArray:
    """D as the weights of all rows show it: D alpha = y - K alpha."""
    X, y = standardized(dataset)
    assert result.model.mean is not None
    alpha = result.model.mean.alpha
    return np.asarray((y - kernel(oracle_params(START, dataset.groups), X, X) @ alpha) / alpha)


def test_all_rows_give_the_mean_of_the_full_process() -> None:
    """At a fixed theta; D is constant, the noise variance or that times the noise scale that was learnt."""
    dataset, new = table(3, n=120), table(4, n=50).inputs
    result = train(dataset, TrainSpec(mean_rows=MeanRows.ALL, **FIXED))
    assert result.model.mean_rows == 120
    shown = noise_of(result, dataset)
    D = np.full(120, np.median(shown))
    np.testing.assert_allclose(shown, D, rtol=1e-6)  # where alpha is small its quotient has fewer digits
    assert START.noise_variance / 20 < D[0] < START.noise_variance * 20
    X, y = standardized(dataset)
    params, unit = oracle_params(START, dataset.groups), standardization(dataset)
    expected = kernel(params, unit.inputs(new), X) @ full_weights(params, X, y, D)
    found = (ModelPredictor(result.model).mean(new) - unit.target_shift) / unit.target_scale
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("rows", [MeanRows.ALL, 70])
def test_iterations_end_near_the_solution(rows: MeanRows | int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Within a tenth of the residuals, which changes a squared error by a hundredth."""
    monkeypatch.setattr(mean, "CLOSED_ROWS", 0)
    dataset = table(3, n=120)
    result = train(dataset, TrainSpec(mean_rows=rows, **FIXED))
    assert result.model.mean is not None
    X, y = standardized(dataset)
    params, unit = oracle_params(START, dataset.groups), standardization(dataset)
    S = unit.inputs(result.model.mean.basis)
    predictor, scale = ModelPredictor(result.model), unit.target_scale
    found = (predictor.mean(dataset.inputs) - unit.target_shift) / scale
    b = result.model.calibration.noise_scale
    off = []
    for factor in (1.0, b, *np.geomspace(0.05, 20.0, 60)):  # D of either step is the noise times some scale
        D = np.full(len(y), START.noise_variance * factor)
        weights = full_weights(params, X, y, D) if rows is MeanRows.ALL else subset_weights(params, X, y, D, S)
        off.append(np.sqrt(np.mean((found - kernel(params, X, S) @ weights) ** 2)))
    assert min(off) < 0.1 * np.sqrt(np.mean((y - found) ** 2))


def test_rows_held_out_are_predicted_by_fits_without_them(way: str) -> None:
    """A theta under which the mean goes through every row it has seen: pure noise is then predicted badly."""
    random = np.random.default_rng(0)
    dataset = Dataset(inputs=random.normal(size=(80, 2)), targets=random.normal(size=80))
    start = hyperparameters([0.1, 0.1], signal_variance=1.0, bias_variance=0.1, noise_variance=1e-4)
    spec = TrainSpec(
        mean_rows=MeanRows.ALL, basis_size=10, adaptation=None, start=start, holdout=0.3, noise=Noise.CONSTANT
    )
    report = train(dataset, spec).report
    assert report.candidates[1].mean == "all", way
    for scores in (report.holdout, report.leave_one_out):
        assert scores is not None
        assert scores.nmse is not None
        assert scores.nmse > 0.7


@pytest.mark.parametrize("rows", [MeanRows.ALL, 60])
def test_noise_far_below_rounding_is_no_obstacle(rows: MeanRows | int, way: str) -> None:
    """K of a smooth kernel has eigenvalues that rounding makes negative: the noise is lifted above them."""
    dataset = waves(120, noise=0.0)
    start = hyperparameters([2.0, 2.0], signal_variance=1.0, bias_variance=1.0, noise_variance=1e-14)
    basis, result = (
        train(dataset, TrainSpec(**{**WAVES, "start": start, "mean_rows": each})) for each in (MeanRows.BASIS, rows)
    )
    assert result.report.leave_one_out.nmse is not None
    assert basis.report.leave_one_out.nmse is not None
    assert result.report.leave_one_out.nmse < 0.5 * basis.report.leave_one_out.nmse, way


def test_auto_takes_all_rows_where_they_predict_better() -> None:
    dataset, fresh = waves(260), waves(400, noise=0.0, seed=1)
    basis, auto = (train(dataset, TrainSpec(mean_rows=rows, **WAVES)) for rows in (MeanRows.BASIS, MeanRows.AUTO))
    assert auto.model.mean_rows == 260
    small, large = auto.report.candidates
    assert (small.mean, small.mean_rows, small.taken, small.reason) == ("basis", 12, False, None)
    assert (large.mean, large.mean_rows, large.taken) == ("all", 260, True)
    assert large.reason is not None
    assert "more than one standard error" in large.reason
    assert large.nlpd < small.nlpd - LEAST_GAIN
    squares = [np.mean((ModelPredictor(r.model).mean(fresh.inputs) - fresh.targets) ** 2) for r in (basis, auto)]
    assert squares[1] < 0.8 * squares[0]
    assert auto.report.holdout is not None
    assert basis.report.holdout is not None
    assert auto.report.holdout.nlpd < basis.report.holdout.nlpd


def test_auto_keeps_the_basis_bit_for_bit_where_more_rows_say_no_more() -> None:
    """A straight line with much noise, which twenty basis vectors follow."""
    random = np.random.default_rng(2)
    X = random.normal(size=(300, 1))
    dataset = Dataset(inputs=X, targets=X[:, 0] + random.normal(size=300))
    start = hyperparameters([4.0], signal_variance=4.0, bias_variance=0.1, noise_variance=0.5)
    spec: dict[str, Any] = {"basis_size": 20, "adaptation": None, "start": start, "noise": "constant"}
    basis, auto = (train(dataset, TrainSpec(mean_rows=rows, **spec)) for rows in (MeanRows.BASIS, MeanRows.AUTO))
    assert_same_model(auto.model, basis.model)
    assert [candidate.taken for candidate in auto.report.candidates] == [True, False]
    assert auto.report.candidates[0].reason is not None
    assert "not a gain of more than" in auto.report.candidates[0].reason
    assert auto.report.holdout == basis.report.holdout
    assert basis.report.candidates == ()
    assert TrainSpec().mean_rows is MeanRows.BASIS


@pytest.mark.parametrize(
    "spec",
    [
        {"calibrate": None},
        {"refinement": Refinement(steps=3)},
        {"artefact": Artefact.COMPACT},
        {"basis_size": None},  # every row is a basis vector
    ],
)
def test_auto_does_not_compare_where_it_cannot(spec: dict[str, Any]) -> None:
    result = train(waves(90), TrainSpec(**{**WAVES, "mean_rows": "auto", **spec}))
    assert result.model.mean is None
    assert result.report.candidates == ()
    assert ("basis_size" in spec) or FIXED_MEAN in result.report.warnings


def test_a_constant_model_says_that_its_mean_is_one_too() -> None:
    random = np.random.default_rng(2)
    noise = Dataset(inputs=random.normal(size=(60, 3)), targets=random.normal(size=60))
    result = train(noise, TrainSpec(mean_rows=MeanRows.ALL))
    assert result.model.mean is None
    assert CONSTANT_MEAN in result.report.warnings


def test_tables_beyond_what_auto_compares_keep_the_basis(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mean, "MOST_ROWS", 80)
    report = train(waves(90), TrainSpec(mean_rows=MeanRows.AUTO, **WAVES)).report
    assert any("compares others up to 80 rows" in warning for warning in report.warnings)


def test_many_rows_have_some_of_them_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The basis rows are among them."""
    monkeypatch.setattr(mean, "ALL_ROWS", 100)
    monkeypatch.setattr(mean, "CHOSEN_ROWS", 90)
    dataset = waves(260)
    result = train(dataset, TrainSpec(mean_rows=MeanRows.AUTO, noise=Noise.CONSTANT, **WAVES))
    assert result.model.mean is not None
    chosen = {tuple(row) for row in result.model.mean.basis}
    assert len(chosen) == 90
    assert chosen >= {tuple(row) for row in dataset.inputs[result.selection.indices]}
    assert result.report.candidates[1].mean == "chosen"


@pytest.mark.parametrize(("rows", "closed"), [(MeanRows.ALL, 0), (MeanRows.AUTO, 2_000), (40, 0)])
def test_resumed_run_ends_with_the_same_bits(
    rows: MeanRows | int, closed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mean, "CLOSED_ROWS", closed)
    """The mean is made again from the sparse model of the last checkpoint."""
    spec = TrainSpec(mean_rows=rows, **(QUICK if rows is MeanRows.ALL else WAVES))
    dataset = waves(90)
    whole, checkpoints = checkpoints_of(dataset, spec)
    assert whole.model.mean is not None
    assert_same_bits(train(dataset, spec, resume=checkpoints[-1]), whole)


def test_progress_of_the_iterations_and_an_end_amid_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mean, "CLOSED_ROWS", 0)
    events: list[Progress] = []

    def listen(event: object) -> None:
        if isinstance(event, Progress):
            events.append(event)

    start = hyperparameters([0.3, 0.3], signal_variance=1.0, bias_variance=0.1, noise_variance=1e-3)
    spec = TrainSpec(mean_rows=MeanRows.ALL, basis_size=20, adaptation=None, start=start, noise=Noise.CONSTANT)
    train(waves(400), spec, listen=listen)
    fractions = [event.fraction for event in events]
    assert fractions == sorted(fractions)
    assert fractions[-1] == 1.0
    late = {event.fraction for event in events if event.phase is Phase.FITTING and event.fraction > 0.6}
    assert len(late) > 5

    class CutError(Exception):
        pass

    def cut(event: object) -> None:
        if isinstance(event, Progress) and event.fraction >= sorted(late)[2]:
            raise CutError

    with pytest.raises(CutError):
        train(waves(400), spec, listen=cut)


def test_report_is_json() -> None:
    report = train(waves(90), TrainSpec(mean_rows=MeanRows.ALL, **WAVES)).report.to_json()
    assert json.loads(json.dumps(report, allow_nan=False)) == report
    basis, everything = report["candidates"]
    fields = {"kernel", "theta", "mean", "mean_rows", "variance", "rows", "nmse", "nlpd", "seconds", "taken", "reason"}
    assert set(basis) == set(everything) == fields
    assert everything["reason"].startswith("asked for")
    assert min(basis["seconds"], everything["seconds"]) > 0.0
    assert report["artefact"]["mean_rows"] == 90
    assert report["artefact"]["bytes"] > 90 * 3 * 8  # its rows and weights


def test_a_mean_alone_rests_on_all_rows_too() -> None:
    spec = {**FIXED, "mean_rows": "all"}
    full, alone = (train(table(), TrainSpec(**spec, artefact=kind)) for kind in (Artefact.FULL, Artefact.MEAN))
    assert alone.stored.arrays().keys() == full.stored.arrays().keys() - {"R"}
    assert_same_model(full.model, alone.model)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"mean_rows": 0}, "whole number of at least 1"),
        ({"mean_rows": True}, "whole number of at least 1"),
        ({"mean_rows": 2.5}, "whole number of at least 1"),
        ({"mean_rows": "most"}, "expected one of auto, all, basis"),
        ({"mean_rows": "all", "calibrate": None}, "left-out rows"),
        ({"mean_rows": 50, "refinement": Refinement()}, "moves basis vectors"),
        ({"mean_rows": "all", "artefact": Artefact.COMPACT}, "compact"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidSpecError, match=message) as caught:
        TrainSpec(**given)
    assert "mean_rows" in str(caught.value)


def test_more_rows_than_there_are_are_refused() -> None:
    with pytest.raises(InvalidSpecError, match="at most the 90 rows"):
        train(table(n=90), TrainSpec(mean_rows=91, **FIXED))
