"""Evaluation of a model on rows whose truth is known: scores of all of them, of groups of them, and the worst rows."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from app.errors import Fault, InvalidRequestError
from app.services.predict.loaded_model import LoadedModel
from app.services.predict.options import OnError
from app.services.predict.row_weights import TrainedWeights
from app.tables import CellErrors, Schema, Table
from app.tables.columns.cell_errors import list_names
from app.tables.read.names import closest_name, find_name, match_names
from core.arrays import BoolArray, FloatArray, IntArray
from core.predict.metrics import RowScores, row_scores
from core.process.rows import mean_by_weight, variance_by_weight

MOST_WORST = 1_000
MOST_BY = 20
"""Columns whose groups are scored."""
INTERVAL = 0.95
"""Level of the interval of the worst rows."""

_PART_ROWS = 4_096  # a distribution holds some arrays of a row's size at once
_MOST_GROUPS = 50
_MOST_LEVELS = 12  # of a column of numbers, from which on its groups are quarters of the rows
_QUARTERS = 4
_OFF = 3.0  # standard errors from which on a share is told to be off


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluateOptions:
    """Contents of an evaluation. by: columns of the table whose groups are scored; worst: how many rows are listed;
    on_error: of rows that cannot be predicted. target: of several the one that is scored."""

    by: tuple[str, ...] = ()
    worst: int = 10
    on_error: OnError = OnError.REFUSE
    target: str | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.worst <= MOST_WORST:
            raise InvalidRequestError(f"worst: expected a number from 0 to {MOST_WORST:,}, got {self.worst:,}")
        if len(self.by) > MOST_BY:
            raise InvalidRequestError(f"by: expected at most {MOST_BY} columns, got {len(self.by)}")


def evaluate(model: LoadedModel, table: Table, options: EvaluateOptions | None = None) -> dict[str, Any]:
    """Return what is known of a model's predictions of a table with the truth, as JSON has it.

    `rows` are those that count: of the others `rows_without_truth` have none, `rows_failed` cannot be predicted and
    `rows_of_weight_zero` count nothing. Where the table has the column of the model's `weights` each row's noise is by
    its own, and squared errors are means by weight, as in the report; elsewhere it is that of a row of mean weight.
    Scores of a model of the mean alone are those of the mean. Raises InvalidRequestError: no such target, no column
    of it, a truth that is no number, a cell or a weight that cannot be used, no row left.
    """
    options = options or EvaluateOptions()
    model = model.of_target(options.target)
    schema = model.schema
    truth = _truth(schema, table)
    columns = {name: _column_name(name, table) for name in options.by}
    errors = CellErrors(lines=table.lines, tolerated=options.on_error is OnError.NULL)
    inputs = schema.encode_table(table, errors)
    weights = None if model.weights is None else model.weights.of_rows(schema, table, errors)
    failed = np.zeros(table.rows, dtype=np.bool_)
    failed[errors.rows()] = True
    usable = ~np.isnan(truth) & ~failed
    uncounted = np.zeros(table.rows, dtype=np.bool_) if weights is None else usable & (weights == 0.0)
    rows = np.flatnonzero(usable & ~uncounted)
    if not len(rows):
        nothing = f", and {int(uncounted.sum()):,} have a weight of 0" if uncounted.any() else ""
        raise InvalidRequestError(
            f"no row is left to evaluate: of {table.rows:,} rows {int(np.isnan(truth).sum()):,} have no "
            f"{schema.target!r}, and {int(failed.sum()):,} cannot be predicted{nothing}"
        )
    found = _Rows.of(model, inputs[rows], truth[rows], None if weights is None else weights[rows])
    finite = (
        np.isfinite(found.mean) if found.scores is None else np.isfinite(found.mean) & np.isfinite(found.scores.loss)
    )
    if not finite.all():
        row = int(rows[int(np.flatnonzero(~finite)[0])])
        raise InvalidRequestError(f"row {row}: its numbers are so large that the prediction is not a finite number")
    everything = np.arange(len(rows))
    scores = found.summary(everything)
    return {
        "target": schema.target,
        "rows": len(rows),
        "rows_without_truth": int(np.isnan(truth).sum()),
        "rows_failed": int((failed & ~np.isnan(truth)).sum()),
        "rows_of_weight_zero": int(uncounted.sum()),
        "weights": None if weights is None or model.weights is None else model.weights.column,
        "scores": scores,
        "groups": [
            {"column": name, "value": value, **found.summary(members)}
            for name, column in columns.items()
            for value, members in _groups(table, column, rows)
        ],
        "worst": found.worst(rows, options.worst, table),
        "warnings": _warnings(
            scores,
            model.predictor.calibration.rows,
            errors.first() if failed.any() else None,
            model.weights,
            weighted=weights is not None,
        ),
    }


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Rows:
    """Predictions of the rows that count (m,). scores, lower, upper, std: None of a model of the mean alone. weights:
    of the rows, above zero, by which squared errors are means; None where all count the same."""

    truth: FloatArray
    mean: FloatArray
    std: FloatArray | None = None
    lower: FloatArray | None = None
    upper: FloatArray | None = None
    scores: RowScores | None = None
    weights: FloatArray | None = None

    @classmethod
    def of(cls, model: LoadedModel, inputs: FloatArray, truth: FloatArray, weights: FloatArray | None) -> "_Rows":
        """Predict these rows, part by part."""
        predictor = model.integrated or model.predictor
        starts = range(0, len(truth), _PART_ROWS)
        with np.errstate(over="ignore", invalid="ignore"):  # the caller looks for numbers that are not finite
            if model.predictor.mean_only:
                means = [predictor.mean(inputs[start : start + _PART_ROWS]) for start in starts]
                return cls(truth=truth, mean=np.concatenate(means), weights=weights)
            parts, bars = [], []
            for start in starts:
                some = slice(start, start + _PART_ROWS)
                own = None if weights is None else weights[some]
                predicted = (
                    predictor.predict(inputs[some]) if own is None else model.predictor.predict(inputs[some], own)
                )
                parts.append(row_scores(truth[some], predicted, own))
                bars.append((predicted.std(), *predicted.interval(INTERVAL)))
        joined = RowScores.joined(parts)
        std, lower, upper = (np.concatenate(arrays) for arrays in zip(*bars, strict=True))
        return cls(truth=truth, mean=joined.mean, std=std, lower=lower, upper=upper, scores=joined, weights=weights)

    def summary(self, members: IntArray) -> dict[str, Any]:
        """Return the scores of some of the rows."""
        truth, mean = self.truth[members], self.mean[members]
        weights = np.empty(0) if self.weights is None else self.weights[members] / self.weights[members].max()
        square, spread = mean_by_weight(np.square(truth - mean), weights), variance_by_weight(truth, weights)
        nmse = square / spread if spread > 0 else None
        found = {
            "rows": len(members),
            "nmse": nmse,
            "rmse": square**0.5,
            "mae": mean_by_weight(np.abs(truth - mean), weights),
            "r2": None if nmse is None else 1.0 - nmse,
        }
        return found if self.scores is None else found | asdict(self.scores.take(members).summary())

    def worst(self, rows: IntArray, count: int, table: Table) -> list[dict[str, Any]]:
        """Return the rows with the largest errors, the largest first. rows: their numbers in the table."""
        order = np.argsort(-np.abs(self.truth - self.mean), kind="stable")[:count]
        lines = table.lines(rows[order].tolist())
        found = []
        for place in order.tolist():
            row: dict[str, Any] = {
                "row": int(rows[place]),
                "line": lines.get(int(rows[place])),
                "target": float(self.truth[place]),
                "mean": float(self.mean[place]),
                "error": float(self.truth[place] - self.mean[place]),
            }
            if self.std is not None and self.lower is not None and self.upper is not None:
                row |= {
                    "std": float(self.std[place]),
                    "lower": float(self.lower[place]),
                    "upper": float(self.upper[place]),
                }
            found.append(row)
        return found


def _truth(schema: Schema, table: Table) -> FloatArray:
    """Return the target of each row, NaN where there is none."""
    name = match_names([schema.target], table.names, schema.names).get(schema.target)
    if name is None:
        near = closest_name(schema.target, [name for name in table.names if name not in schema.names])
        hint = f"; did you mean {schema.target!r} by {near!r}?" if near else ""
        message = f"the table has no column {schema.target!r}, the truth to compare with{hint}"
        raise InvalidRequestError(message, [Fault(column=schema.target, message="the column is missing")])
    column = schema.as_given(table).columns[name]
    numbers = column.numbers
    if len(numbers.invalid):
        errors = CellErrors(lines=table.lines)
        errors.add(name, numbers.invalid, column.cell, lambda cell: f"{cell!r} is not a number")
        errors.refuse("correct it and send the table again")
    return np.where(numbers.missing, np.nan, numbers.values)


def _column_name(asked: str, table: Table) -> str:
    found = find_name(asked, table.names, "by")
    if found is None:
        near = closest_name(asked, table.names)
        hint = f"did you mean {near!r}?" if near else f"there are {list_names(table.names)}"
        raise InvalidRequestError(
            f"by: the table has no column {asked!r}; {hint}", [Fault(column=asked, message="the column is missing")]
        )
    return found


def _groups(table: Table, name: str, rows: IntArray) -> Sequence[tuple[str | None, IntArray]]:
    """Return the values of a column with the places of their rows among `rows`, the largest group first; of many
    numbers quarters of the rows, by order."""
    column = table.columns[name]
    levels = column.levels
    if len(levels.names) > _MOST_LEVELS and not len(column.numbers.invalid):
        values = np.where(column.numbers.missing, np.nan, column.numbers.values)[rows]
        return _quarters(values)
    codes = levels.codes[rows]
    order = np.argsort(codes, kind="stable")
    found, starts = np.unique(codes[order], return_index=True)
    members = np.split(order, starts[1:])
    largest = sorted(range(len(members)), key=lambda place: -len(members[place]))
    groups: list[tuple[str | None, IntArray]] = [
        (None if found[place] < 0 else levels.names[int(found[place])].as_py(), members[place])
        for place in largest[:_MOST_GROUPS]
    ]
    if len(largest) <= _MOST_GROUPS:
        return groups
    rest = np.sort(np.concatenate([members[place] for place in largest[_MOST_GROUPS:]]))
    return [*groups, (f"{len(largest) - _MOST_GROUPS:,} other values", rest)]


def _quarters(values: FloatArray) -> Sequence[tuple[str | None, IntArray]]:
    known = ~np.isnan(values)
    if not known.any():
        return [(None, np.arange(len(values)))]
    edges = np.unique(np.quantile(values[known], np.linspace(0.0, 1.0, _QUARTERS + 1)))
    place = np.clip(np.searchsorted(edges, values, side="right") - 1, 0, max(0, len(edges) - 2))
    found: list[tuple[str | None, IntArray]] = []
    for part in range(max(1, len(edges) - 1)):
        members: BoolArray = known & (place == part)
        if members.any():
            low, high = values[members].min(), values[members].max()
            found.append((f"{low:.6g} to {high:.6g}", np.flatnonzero(members)))
    return [*found, *([(None, np.flatnonzero(~known))] if not known.all() else [])]


def _warnings(
    scores: Mapping[str, Any],
    calibrated: int,
    failed: str | None,
    weights: TrainedWeights | None = None,
    *,
    weighted: bool = False,
) -> list[str]:
    """Return what a person should know before the figures are believed. calibrated: how many left-out rows the error
    bars were fitted to, 0 where they were to none: their number is chance for the share of new rows, too. weights: of
    the rows of the training; weighted: these rows are read by their own."""
    said = [] if failed is None else [f"rows that cannot be predicted do not count, the first at {failed}"]
    reason = "which may be of another kind than those of the training"
    if weighted:
        reason += ", or not as precise as their weights say"
    elif weights is not None and scores.get("coverage"):
        said.append(
            f"the model was trained with weights, and the table has no column {weights.column!r}: "
            f"{weights.bars}; with the column each row is held against its own"
        )
        reason = "whose own weights are not known"
    share = scores.get("coverage", {}).get(str(INTERVAL))
    if share is not None:
        error = scores["coverage_standard_error"][str(INTERVAL)]
        if calibrated:
            error = float(np.hypot(error, np.sqrt(INTERVAL * (1.0 - INTERVAL) / calibrated)))
        if abs(share - INTERVAL) > _OFF * error:
            size = "short" if share < INTERVAL else "long"
            said.append(
                f"the {100 * INTERVAL:g}% intervals hold {share:.1%} of these rows: the error bars are too {size} for "
                f"them, {reason}"
            )
    nmse = scores["nmse"]
    if nmse is not None and nmse > 1.0:
        said.append("the mean of these rows' own truths would be closer to them than the predictions are")
    return said
