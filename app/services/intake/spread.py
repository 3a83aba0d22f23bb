"""Checks of a table's numbers against what `core` can learn: their spread, and the logarithm of a target."""

import numpy as np

from app.errors import MAX_FAULTS, Fault, InvalidRequestError
from app.tables import Kind, Schema, Table, TrainingRows
from app.tables.columns.counts import Ends
from app.tables.columns.sums import TableSums
from core.arrays import BoolArray, FloatArray
from core.data import Dataset, standardization
from core.errors import InvalidDataError
from core.predict.transforms import LEAST_TARGET
from core.spec import TargetTransform


def check_spread(table: Table, schema: Schema, training_rows: TrainingRows, *, standardize: bool) -> None:
    """InvalidRequestError naming the columns that `core` cannot standardize; O(n p)."""
    fills = {feature.name: feature for feature in schema.used if feature.kind is Kind.NUMBER}
    kept = schema.as_trained(table).keep(training_rows.kept, (schema.target, *fills))
    sums, names = TableSums(kept), []
    sums.gather((schema.target, *fills))
    for name in (*fills, schema.target):
        offset, fill = (fills[name].offset, fills[name].fill) if name in fills else (None, None)
        if _is_tame(sums[name].ends(offset)):
            continue
        values, nothing = kept.columns[name].minus(offset), np.zeros(1, np.bool_)
        values = values if fill is None else np.where(np.isnan(values), fill, values)
        counting = np.arange(len(values), dtype=np.float64)  # beside which only the other side can be at fault
        inputs, targets = (values, counting) if name in fills else (counting, values)
        if not _has_spread(inputs[:, np.newaxis], targets, nothing, standardize):
            names.append(name)
    if names:
        message = "its spread is beyond what squares of 64-bit numbers hold; give it in another unit"
        faults = [Fault(column=name, message=message) for name in names]
        raise InvalidRequestError("; ".join(f"column {name!r}: {message}" for name in names[:MAX_FAULTS]), faults)


def check_transform(table: Table, schema: Schema, training_rows: TrainingRows, kind: TargetTransform) -> None:
    """InvalidRequestError naming the rows whose target has no logarithm."""
    if kind not in LEAST_TARGET:
        return
    least, total = LEAST_TARGET[kind], 0
    bad: list[tuple[int, float]] = []
    for first, part in TableSums(schema.as_trained(table))[schema.target].numbered():
        values = part.numbers.values
        places = training_rows.kept.between(first, first + len(part)) - first
        places = places[values[places] <= least]
        total += len(places)
        bad += [(first + place, float(values[place])) for place in places[: MAX_FAULTS - len(bad)].tolist()]
    if total:
        message = f"{kind} needs a target above {least:g}"
        lines = table.lines([row for row, _ in bad])
        faults = [
            Fault(row=row, line=lines.get(row), column=schema.target, value=repr(value), message=message)
            for row, value in bad
        ]
        where = f"row {faults[0].row}" + ("" if faults[0].line is None else f", line {faults[0].line}")
        more = f", and {total - 1} more row{'s' if total > 2 else ''}" if total > 1 else ""
        raise InvalidRequestError(
            f"{where}, column {schema.target!r}: target_transform {message}, got {faults[0].value}{more}",
            faults,
            total,
        )


def _is_tame(ends: Ends) -> bool:
    """Return whether numbers with these ends are surely within what can be standardized."""
    return max(-ends.low, ends.high) < 1e100 and ends.high - ends.low > 1e-100


def _has_spread(inputs: FloatArray, targets: FloatArray, indicator: BoolArray, standardize: bool) -> bool:
    with np.errstate(all="ignore"):  # what overflows is what is looked for
        try:
            unit = standardization(Dataset(inputs=inputs, targets=targets, indicator=indicator), enabled=standardize)
        except InvalidDataError:
            return False
    finite = np.isfinite([*unit.input_shift, unit.target_shift, unit.target_scale]).all()
    return bool(finite) and not np.isnan(unit.input_scale).any()  # the scale of a constant column is infinite
