"""Choice of cycles: does the hour, the weekday or the season of a date help to predict later rows?

A date in days since 1970 lets a model interpolate; beyond the last row it knows nothing. Where in the day, week or year
a row is helps there only if the target follows that cycle. Ridge regression tells cheaply: fitted on earlier rows, on
the other columns and elapsed time with and without harmonics of a cycle, it predicts the next block of rows, several
times over. A cycle is taken if it lowers the error over all blocks clearly, and in most of them.

The penalty is chosen by generalized cross-validation (Golub, Heath and Wahba 1979).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from app.tables.columns.cells import FloatArray, IntArray
from app.tables.columns.dates import Cycle, sine_cosine, varying_cycles

_PERIOD: Final = {Cycle.DAY: 1.0, Cycle.WEEK: 7.0, Cycle.YEAR: 365.25}  # days
_MIN_PERIODS: Final = {Cycle.DAY: 3.0, Cycle.WEEK: 3.0, Cycle.YEAR: 1.9}  # that the rows have to span
_HARMONICS = 3
_MIN_ROWS = 40
_MAX_ROWS = 3_000
_MAX_COLUMNS = 60
_BLOCKS = 4
_LEFT_OUT = 0.4  # share of the rows in all blocks together
_GAIN, _GAIN_ONCE = 0.1, 0.2  # share of the error that a cycle has to save, and over the number of periods
_COARSEST = 1 / 3  # of a period between rows: a cycle has to be seen
_PENALTIES = np.logspace(-4, 2, 13)


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleChoice:
    """Cycles that help; error_reduction: share of the squared error of later rows that they save."""

    cycles: tuple[Cycle, ...] = ()
    error_reduction: float = 0.0


def choose_cycles(micros: IntArray, inputs: FloatArray, targets: FloatArray) -> CycleChoice:
    """The cycles of a date (n,), in microseconds since 1970, that help beside the other inputs (n, p).

    Deterministic. O(n p^2), p at most 60; for the rows that `subsample_rows` leaves.
    """
    order = np.argsort(micros, kind="stable")
    micros, inputs, targets = micros[order], inputs[order], targets[order]
    days = micros / 86_400e6
    span = float(days[-1] - days[0]) if len(days) else 0.0
    if len(micros) < _MIN_ROWS or span == 0.0:
        return CycleChoice()
    step = float(np.median(np.diff(np.unique(days))))
    periods = {cycle: span / _PERIOD[cycle] for cycle in varying_cycles(micros) if step <= _COARSEST * _PERIOD[cycle]}
    possible = [cycle for cycle, count in periods.items() if count >= _MIN_PERIODS[cycle]]
    if not possible:
        return CycleChoice()
    base = _columns(inputs, targets)
    elapsed = days[:, np.newaxis]
    folds = _folds(len(micros))
    errors = _errors(np.hstack([base, elapsed]), targets, folds)
    timeless = _errors(base, targets, folds)
    start = best = timeless if timeless.sum() < errors.sum() else errors
    chosen: list[Cycle] = []
    blocks = {cycle: _harmonics(micros, cycle) for cycle in possible}
    while left := [cycle for cycle in possible if cycle not in chosen]:
        found = {
            cycle: _errors_with(base, elapsed, [blocks[c] for c in (*chosen, cycle)], targets, folds) for cycle in left
        }
        cycle = min(left, key=lambda one: float(found[one].sum()))
        if not _improves(found[cycle], best, periods[cycle]):
            break
        chosen.append(cycle)
        best = found[cycle]
    return CycleChoice(
        cycles=tuple(cycle for cycle in Cycle if cycle in chosen),
        error_reduction=1.0 - float(best.sum() / start.sum()) if chosen else 0.0,
    )


def subsample_rows(rows: int) -> IntArray:
    """Row numbers, at random where there are very many: every tenth hour would show no day."""
    if rows <= _MAX_ROWS:
        return np.arange(rows, dtype=np.int64)
    chosen: IntArray = np.sort(np.random.default_rng(0).choice(rows, _MAX_ROWS, replace=False))
    return chosen


def _folds(rows: int) -> list[tuple[int, int]]:
    """Blocks of later rows, each from its first row to the one after its last."""
    size = max(1, int(_LEFT_OUT * rows) // _BLOCKS)
    return [(rows - size * place, rows - size * (place - 1)) for place in range(_BLOCKS, 0, -1)]


def _columns(inputs: FloatArray, targets: FloatArray) -> FloatArray:
    """The columns that are not constant, at most so many: those that go with the target the most."""
    scale = inputs.std(axis=0)
    inputs = inputs[:, scale > 1e-12 * np.abs(inputs).max(axis=0, initial=0.0)]
    if inputs.shape[1] <= _MAX_COLUMNS:
        return inputs
    centred = inputs - inputs.mean(axis=0)
    with np.errstate(all="ignore"):
        linked = np.abs(centred.T @ (targets - targets.mean())) / np.sqrt((centred**2).sum(axis=0))
    return inputs[:, np.sort(np.argsort(-np.nan_to_num(linked), kind="stable")[:_MAX_COLUMNS])]


def _harmonics(micros: IntArray, cycle: Cycle) -> FloatArray:
    first = sine_cosine(micros, cycle)
    turn = first[:, 1] + 1j * first[:, 0]
    powers = [turn**k for k in range(1, _HARMONICS + 1)]
    return np.column_stack([part for power in powers for part in (power.real, power.imag)])


def _errors_with(
    base: FloatArray,
    elapsed: FloatArray,
    blocks: Sequence[FloatArray],
    targets: FloatArray,
    folds: Sequence[tuple[int, int]],
) -> FloatArray:
    """The errors with some cycles, with elapsed time or without, whichever is less."""
    timeless = _errors(np.hstack([base, *blocks]), targets, folds)
    timed = _errors(np.hstack([base, elapsed, *blocks]), targets, folds)
    return timeless if timeless.sum() < timed.sum() else timed


def _improves(found: FloatArray, before: FloatArray, periods: float) -> bool:
    """Return whether a cycle saves enough, which is the more the fewer periods there are to learn it from."""
    better = int(np.count_nonzero(found < before))
    return bool(found.sum() < (1.0 - _GAIN - _GAIN_ONCE / periods) * before.sum()) and better >= _BLOCKS - 1


def _errors(inputs: FloatArray, targets: FloatArray, folds: Sequence[tuple[int, int]]) -> FloatArray:
    """Squared error of each block, predicted from all rows before it."""
    return np.array(
        [
            float(((_ridge(inputs[:start], targets[:start], inputs[start:stop]) - targets[start:stop]) ** 2).sum())
            for start, stop in folds
        ]
    )


def _ridge(inputs: FloatArray, targets: FloatArray, later: FloatArray) -> FloatArray:
    """Predictions for later rows; the penalty with the least generalized cross-validation error."""
    middle, scale = inputs.mean(axis=0), inputs.std(axis=0)
    scale[scale < 1e-12 * (1.0 + np.abs(middle))] = np.inf
    unit = (inputs - middle) / scale
    mean = float(targets.mean())
    if not unit.shape[1]:
        return np.full(len(later), mean)
    U, s, Vt = np.linalg.svd(unit, full_matrices=False)
    along = U.T @ (targets - mean)
    rows = len(targets)
    rest = float(((targets - mean) ** 2).sum() - (along**2).sum())
    best, weights = np.inf, along * 0.0
    for penalty in _PENALTIES * rows:
        kept = s**2 / (s**2 + penalty)
        error = rest + float((((1.0 - kept) * along) ** 2).sum())
        score = error / (rows - 1.0 - float(kept.sum())) ** 2
        if score < best:
            best, weights = score, s / (s**2 + penalty) * along
    predicted: FloatArray = mean + (later - middle) / scale @ (Vt.T @ weights)
    return predicted
