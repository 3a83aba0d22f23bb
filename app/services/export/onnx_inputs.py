"""Cells to the inputs of the process, in an ONNX graph: each used column of the upload is an input (rows, 1).

    number    float64, NaN where missing; int64 where 64-bit numbers would round it, the least one where missing
    boolean   float64, 0 or 1, NaN where missing
    date      int64, microseconds since 1970-01-01 in UTC, the least one (numpy's NaT) where missing
    category  string, empty where missing

A row that the service refuses, such as one with a level that is not known, has NaN in every output.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from app.errors import InvalidRequestError
from app.services.export.graph import Graph, Value
from app.tables import CellErrors, Feature, Kind, Schema
from app.tables.columns.dates import Cycle, DateOrder, parse_date
from app.tables.columns.table import Column
from core.arrays import FloatArray

MISSING_INTEGER: Final = -(2**63)
"""The sign of a missing int64: numpy's NaT of dates."""
OUTPUTS: Final = ("mean", "std", "lower", "upper")
_DAY: Final = 86_400_000_000
_YEAR_ONE, _YEAR_END = -62_135_596_800_000_000, 253_402_300_800_000_000
"""Microseconds of 0001-01-01 and of 10000-01-01."""
_TO_YEAR_ZERO: Final = 719_528
"""Days from 0000-01-01 to 1970-01-01."""
_WEEKS: Final = 7 * 200_000
"""Days that make every time positive, and leave the place in the day and week as it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Port:
    """An input of an exported model. name: in the graph; column: of the upload; unit: of its values, in words."""

    name: str
    column: str
    kind: Kind
    type: str
    unit: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EncodedInputs:
    """Inputs (m, p) of the process, finite. missing (m, f): 1 where a feature is integrated over, and zero in the
    inputs; None where none may be. refused (m, 1): NaN in rows that the service refuses, 0 in others."""

    inputs: Value
    missing: Value | None
    refused: Value


def ports(schema: Schema) -> list[Port]:
    """Return the inputs of a model. InvalidRequestError for a column that no type of ONNX holds exactly."""
    return [_port(feature) for feature in schema.used]


def encode_inputs(graph: Graph, schema: Schema) -> EncodedInputs:
    """Add inputs, and what makes them numbers, to a graph. Raises as `ports` does."""
    blocks, missing = [], []
    for feature, port in zip(schema.used, ports(schema), strict=True):
        cell = graph.input(port.name, port.type)
        if feature.kind is Kind.CATEGORY:
            block, absent = _category(feature, schema, cell)
        else:
            block, absent = _number(feature, schema, cell)
        blocks.append(block)
        missing.append(absent if feature.integrate else absent * 0.0)
    raw = graph.joined(blocks)
    refused = (raw * 0.0).total(1)
    return EncodedInputs(
        inputs=raw.otherwise(graph.op("IsNaN", raw * 0.0), 0.0),
        missing=graph.joined(missing) if schema.integrates else None,
        refused=refused,
    )


def _port(feature: Feature) -> Port:
    name = f"{feature.name}_input" if feature.name.rpartition(".")[2] in OUTPUTS else feature.name
    match feature.kind:
        case Kind.CATEGORY:
            kind, unit = "string", "text, without blanks around it; empty where missing"
        case Kind.DATE:
            kind, unit = "int64", f"microseconds since 1970-01-01 in UTC; {MISSING_INTEGER} where missing"
        case Kind.BOOLEAN:
            kind, unit = "float64", "0 or 1; NaN where missing"
        case _ if feature.offset is not None:
            if abs(feature.offset) >= 2**62:
                raise InvalidRequestError(
                    f"format: column {feature.name!r} has integers past 2^62, which no type of ONNX holds; leave it "
                    "out of the training, or ask for numpy"
                )
            kind, unit = "int64", f"an integer; {MISSING_INTEGER} where missing"
        case _:
            kind, unit = "float64", "a number; NaN where missing"
    return Port(name=name, column=feature.name, kind=feature.kind, type=kind, unit=unit)


def level_table(feature: Feature, schema: Schema) -> tuple[dict[str, int], FloatArray]:
    """Return the place of each text that is known in a table of its inputs (levels + 2, width), the last two of which
    are those of a missing and of an unseen level: NaN where these are refused."""
    places = dict(feature.index)
    for level, place in feature.index.items():  # 2 and 2.0 are one level in two spellings
        for other in (f"{level}.0", level.removesuffix(".0")):
            if Column(cells=[other]).level_codes(feature.index)[0] == place:
                places.setdefault(other, place)
    void = {"", *(schema.missing.texts if schema.missing is not None else ())}
    void |= {repr(number) for number in (schema.missing.numbers if schema.missing is not None else ())}
    places |= dict.fromkeys(void, len(feature.levels))
    unseen = "\x00"
    table = np.zeros((len(feature.levels) + 2, feature.width))
    errors = CellErrors(tolerated=True)
    feature.encode(
        Column(cells=[*feature.levels, None, unseen]), table, errors, allow_unseen=schema.unseen.value == "prior"
    )
    table[errors.rows()] = np.nan
    return places, table


def _category(feature: Feature, schema: Schema, cell: Value) -> tuple[Value, Value]:
    places, table = level_table(feature, schema)
    absent = len(feature.levels)
    (code,) = cell.graph.ops(
        "LabelEncoder",
        cell,
        domain="ai.onnx.ml",
        keys_strings=list(places),
        values_int64s=list(places.values()),
        default_int64=absent + 1,
    )
    missing = code.equals(absent)
    if feature.integrate:
        table[absent] = 0.0
    return code.reshaped(-1).taken_from(table), missing.to_float()


def _number(feature: Feature, schema: Schema, cell: Value) -> tuple[Value, Value]:
    """Return the block (m, width) of a number, boolean or date, NaN where it is refused, and where it is missing."""
    graph = cell.graph
    value, missing = _value_and_missing(feature, schema, cell)
    stand_in = feature.fill if feature.fill is not None and not feature.integrate else None
    replaced = stand_in if stand_in is not None else 0.0 if feature.integrate else float("nan")
    value = value.otherwise(missing, replaced)
    columns = [value]
    for cycle in feature.cycles:
        columns += _turn(value, cycle)
    if feature.indicator:
        columns.append(missing.to_float())
    block = graph.joined(columns)
    if feature.cycles and feature.integrate:
        block = block.otherwise(missing, 0.0)
    return block, missing.to_float()


def _value_and_missing(feature: Feature, schema: Schema, cell: Value) -> tuple[Value, Value]:
    graph = cell.graph
    numbers = () if schema.missing is None else schema.missing.numbers
    if feature.kind is Kind.DATE:
        missing = cell.equals(MISSING_INTEGER)
        texts = () if schema.missing is None else sorted(schema.missing.texts)
        order = feature.order or DateOrder.YEAR_FIRST
        for micros in sorted({when for text in texts if (when := parse_date(text, order)) is not None}):
            missing = missing.either(cell.equals(micros))
        outside = cell.below(_YEAR_ONE).either(cell.reaches(_YEAR_END))
        return (cell.to_float() / float(_DAY)).otherwise(outside, float("nan")), missing
    if feature.offset is not None:
        missing = cell.equals(MISSING_INTEGER)
        for number in numbers:
            if number.is_integer() and abs(number) < 2**63:
                missing = missing.either(cell.equals(int(number)))
        return (cell - feature.offset).to_float(), missing
    missing = graph.op("IsNaN", cell)
    for number in numbers:
        missing = missing.either(cell.equals(number))
    if feature.kind is Kind.BOOLEAN:
        return cell.otherwise((cell * (cell - 1.0)).equals(0.0), float("nan")).otherwise(
            cell.equals(0.0), 0.0
        ).otherwise(cell.equals(1.0), 1.0), missing
    return cell, missing


def _turn(days: Value, cycle: Cycle) -> list[Value]:
    """Return sine and cosine of the place of a time in a cycle, (m, 1) each; NaN where the days are."""
    graph = days.graph
    wrong = graph.op("IsNaN", days)
    micros = graph.op("Round", days.otherwise(wrong, 0.0) * float(_DAY)).to_integer()
    if cycle is Cycle.DAY:
        turn = graph.op("Mod", micros + _WEEKS * _DAY, _DAY).to_float() / float(_DAY)
    elif cycle is Cycle.WEEK:
        turn = graph.op("Mod", micros + (_WEEKS - 4) * _DAY, 7 * _DAY).to_float() / float(7 * _DAY)
    else:
        elapsed = micros + _TO_YEAR_ZERO * _DAY
        day = graph.op("Div", elapsed, _DAY)
        year = graph.op("Floor", day.to_float() / 365.2425).to_integer()
        for step in (1, -1):  # the estimate is off by one year at most
            later = _year_start(year + (1 if step == 1 else 0))
            moved = day.reaches(later) if step == 1 else day.below(later)
            year = year + step * moved.to_integer()
        begin, end = _year_start(year), _year_start(year + 1)
        turn = (elapsed - begin * _DAY).to_float() / ((end - begin) * _DAY).to_float()
    angle = turn * (2.0 * np.pi)
    return [graph.op(name, angle).otherwise(wrong, float("nan")) for name in ("Sin", "Cos")]


def _year_start(year: Value) -> Value:
    """Return the days from 0000-01-01 to the first of January of a year above 0."""
    before = year - 1
    leaps = before.graph.op("Div", before, 4) - before.graph.op("Div", before, 100)
    return year * 365 + leaps + before.graph.op("Div", before, 400) + 1
