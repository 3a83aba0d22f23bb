"""core/train/run.py: a run that was cut off ends with the same bits; what is told meanwhile."""

import json

import numpy as np
import pytest

import core.numeric.linalg
from core.spec import Adaptation, Approximation, Calibrate, Method, TrainSpec
from core.train.progress import Checkpoint, Phase, Progress
from core.train.run import train
from tests.core.problems import hyperparameters, to_log
from tests.core.runs import QUICK, assert_same_bits, checkpoints_of, table

OFTEN = (Method.BATCH, Method.DMAX, Method.NLML, Method.INFO)
"""One method of each way to see candidates, and the one that most of the others differ from by their gain."""


class CutError(Exception):
    """Stands for the process that dies."""


@pytest.mark.usefixtures("short_search")
@pytest.mark.parametrize(
    ("method", "approximation"),
    [
        *((method, Approximation.PEP) for method in OFTEN),
        (Method.BATCH, Approximation.DTC),
        (Method.DMAX, Approximation.FITC),
        *(
            pytest.param(method, approximation, marks=pytest.mark.slow)
            for method, approximation in [
                *((method, Approximation.PEP) for method in Method if method not in OFTEN),
                (Method.BATCH, Approximation.FITC),
                (Method.DMAX, Approximation.DTC),
            ]
        ),
    ],
)
def test_resumed_run_ends_with_the_same_bits(method: Method, approximation: Approximation) -> None:
    """Resumed from every checkpoint, after a JSON round trip, in a run whose listener hears nothing of the first.

    Folds begin after the last checkpoint: one run with them, and test_calibrate, are enough.
    """
    spec = TrainSpec(
        calibrate=Calibrate.AUTO if (method, approximation) == (Method.BATCH, Approximation.PEP) else None,
        method=method,
        approximation=approximation,
        basis_size=10,
        adaptation=Adaptation(rounds=3, steps=6),
        candidates=9,
        cache_size=20,
        pool_size=40,
    )
    dataset = table(4)
    whole, checkpoints = checkpoints_of(dataset, spec)
    rounds = [checkpoint.round for checkpoint in checkpoints]
    assert rounds == [0, 1, 2, 3]
    for checkpoint in checkpoints:
        assert_same_bits(train(dataset, spec, resume=checkpoint), whole)


def test_rounds_end_when_the_loss_has_settled() -> None:
    spec = TrainSpec(basis_size=30, adaptation=Adaptation(rounds=40, steps=40), calibrate=None)
    _, checkpoints = checkpoints_of(table(n=400), spec)
    assert len(checkpoints) < 20
    assert checkpoints[-1].round == 40


def test_resumed_run_ends_with_the_same_bits_for_any_theta() -> None:
    """exp(log v) differs from v in the last bit for one theta in five, and a descent makes much of it."""
    for seed in range(6):  # thirty numbers each in three checkpoints
        spec = TrainSpec(basis_size=5, adaptation=Adaptation(rounds=2, steps=5), seed=seed, calibrate=None)
        dataset = table(seed, n=30)
        whole, checkpoints = checkpoints_of(dataset, spec)
        for checkpoint in checkpoints:
            assert_same_bits(train(dataset, spec, resume=checkpoint), whole)


@pytest.mark.usefixtures("short_search")
def test_run_cut_off_again_and_again_ends_with_the_same_bits() -> None:
    """Each attempt dies in the middle of a round that it has just begun, as under kill -9."""
    dataset = table(5)
    spec = TrainSpec(**{**QUICK, "adaptation": Adaptation(rounds=3, steps=6)})
    saved: Checkpoint | None = None

    def listen(event: Progress | Checkpoint) -> None:
        nonlocal saved
        if isinstance(event, Checkpoint):
            saved = event
        elif saved is not None and event.phase is Phase.ADAPTING and event.round == saved.round != begun:
            raise CutError

    deaths, result = 0, None
    while result is None:
        begun = None if saved is None else saved.round
        try:
            result = train(dataset, spec, listen=listen, resume=saved)
        except CutError:
            deaths += 1
            assert deaths < 10
    assert deaths >= 2
    assert_same_bits(result, train(dataset, spec))


@pytest.mark.usefixtures("short_search")
def test_resume_with_a_given_start_and_no_bias_keeps_it_exactly() -> None:
    """exp(log v) is not v to the last bit, and the logarithm of no bias is not a number."""
    start = hyperparameters([1.1, 2.0, 1.6], signal_variance=1.4, bias_variance=0.0, noise_variance=0.07)
    spec = TrainSpec(basis_size=10, adaptation=None, start=start)
    dataset = table(4)
    whole, checkpoints = checkpoints_of(dataset, spec)
    assert checkpoints
    for checkpoint in checkpoints:
        assert_same_bits(train(dataset, spec, resume=checkpoint), whole)


@pytest.mark.usefixtures("short_search")
def test_warnings_of_finished_rounds_are_in_the_checkpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    """A jitter raised in round one is in the report whether or not the run was cut off after it."""
    monkeypatch.setattr(core.numeric.linalg, "JITTERS", (1e-18, 1e-8))
    start = hyperparameters([1e3, 1e3, 1e3], signal_variance=1.0, bias_variance=0.1, noise_variance=0.1)
    spec = TrainSpec(method=Method.RAND, basis_size=40, start=start, adaptation=Adaptation(rounds=2, steps=2))
    whole, (_, first, _) = checkpoints_of(table(6), spec)
    assert any("jitter raised" in text for text in whole.report.warnings)
    assert any("jitter raised" in text for text in first.warnings)


# What is told meanwhile


@pytest.mark.parametrize("method", [Method.DMAX, Method.BATCH])
def test_progress(method: Method) -> None:
    events: list[Progress] = []
    train(
        table(),
        TrainSpec(method=method, **QUICK),
        listen=lambda event: events.append(event) if isinstance(event, Progress) else None,
    )
    fractions = [event.fraction for event in events]
    assert fractions == sorted(fractions)
    assert fractions[0] == 0.0
    assert fractions[-1] == 1.0
    calibrating = {event.fraction for event in events if event.phase is Phase.CALIBRATING}
    assert len(calibrating) > 5  # told fold by fold, not in one leap
    assert {event.phase for event in events} == set(Phase) - {Phase.REFINING}
    assert {event.rounds for event in events} == {2}
    assert [event.round for event in events] == sorted(event.round for event in events)
    assert {event.round for event in events if event.phase is Phase.ADAPTING} == {0, 1}
    assert all(event.basis_size == 10 for event in events if event.phase is Phase.ADAPTING)
    adapting = [event for event in events if event.phase is Phase.ADAPTING]
    assert len(adapting) >= 8  # a person sees every evaluation, not only every round
    assert adapting[-1].objective is not None


@pytest.mark.usefixtures("short_search")
def test_checkpoints_hold_rows_of_the_dataset() -> None:
    dataset = table(7)
    result, checkpoints = checkpoints_of(dataset, TrainSpec(**QUICK))
    first, *rounds = checkpoints
    assert (first.round, first.indices, first.objectives) == (0, (), ())
    assert [len(checkpoint.indices) for checkpoint in rounds] == [10, 10]
    assert rounds[-1].objectives == result.report.objectives
    assert all(0 <= index < 90 for index in rounds[-1].indices)
    np.testing.assert_allclose(rounds[-1].theta, to_log(result.report.hyperparameters), rtol=1e-14)


@pytest.mark.usefixtures("short_search")
def test_report_is_json_with_seconds_for_every_phase() -> None:
    report = train(table(), TrainSpec(**QUICK)).report.to_json()
    assert json.loads(json.dumps(report, allow_nan=False)) == report
    assert set(report["seconds"]) == set(Phase) - {Phase.REFINING}
    assert all(value >= 0 for value in report["seconds"].values())
    assert len(report["hyperparameters"]["lengthscales"]) == 3
    assert len(report["objectives"]) == 2


def test_a_listener_that_fails_stops_the_run() -> None:
    def listen(event: Progress | Checkpoint) -> None:
        if isinstance(event, Progress) and event.phase is Phase.FITTING:
            raise CutError

    with pytest.raises(CutError):
        train(table(), TrainSpec(**QUICK), listen=listen)
