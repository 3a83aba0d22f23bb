"""Schema: how named columns become the design matrix, at training and at prediction time alike.

A number, a boolean and a date are one column of the matrix; the cycles of a date are two more each. A category of L
levels is a block of L columns of 0 and 1 that share one lengthscale. A missing cell is NaN in all columns of its
feature, to be integrated over. Where being missing says something of the target, a further 0/1 column marks such cells
instead: with a lengthscale of its own after a number, inside the block of a category.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import accumulate
from typing import Any, TypeVar, cast

import numpy as np

from app.errors import Fault, InvalidRequestError, MalformedError
from app.tables.columns.cell_errors import CellErrors, json_type, list_names, plural
from app.tables.columns.cells import BoolArray, Cell, FloatArray, IntArray, read_text
from app.tables.columns.missing import MissingValues, missing_values
from app.tables.columns.number_formats import PLAIN, NumberFormat
from app.tables.columns.read_options import AUTODETECT, ReadOptions
from app.tables.columns.table import Column, Kind, Table, float_matrix
from app.tables.read.json_tables import check_cells, common_length
from app.tables.read.names import closest_name, match_names
from app.tables.schema.features import Feature, expect_text

T = TypeVar("T")


class Unseen(StrEnum):
    """Reading of a level that training has not seen: refused, or as an average one whose error bar holds the spread
    between levels (far from all rows where there are too few to tell)."""

    ERROR = "error"
    PRIOR = "prior"


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """The features of a model in the order of a positional row, and its target.

    The `encode_*` methods give (m, p) float64, C order, and raise InvalidRequestError naming row and column: a
    missing column, a missing cell of a model that does not take them, a cell that is no number, an unseen level. Other
    columns are ignored. The same cell gives the same bits whichever method reads it.
    other_targets: of a model of several, which may be one; None for one of a single target.
    read_options: how tables are to be read. numeric_only: rows are finite numbers, and nothing else; mostly_numeric: or
    missing cells that are integrated over.
    """

    target: str
    features: tuple[Feature, ...]
    unseen: Unseen = Unseen.ERROR
    missing: MissingValues | None = None
    read_options: ReadOptions = AUTODETECT
    other_targets: tuple[str, ...] | None = None
    names: tuple[str, ...] = field(init=False, repr=False, compare=False)
    used: tuple[Feature, ...] = field(init=False, repr=False, compare=False)
    blocks: tuple[slice, ...] = field(init=False, repr=False, compare=False)
    width: int = field(init=False, repr=False, compare=False)
    only_integrates: bool = field(init=False, repr=False, compare=False)
    mostly_numeric: bool = field(init=False, repr=False, compare=False)
    numeric_only: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        used = tuple(feature for feature in self.features if feature.kind is not Kind.UNUSED)
        ends = tuple(accumulate((feature.width for feature in used), initial=0))
        numbers = all(
            feature.kind is Kind.NUMBER and feature.offset is None and (feature.integrate or not feature.takes_missing)
            for feature in self.features
        )
        numbers = numbers and self.missing is None
        for name, value in (
            ("names", tuple(feature.name for feature in self.features)),
            ("used", used),
            ("blocks", tuple(map(slice, ends, ends[1:]))),
            ("width", ends[-1]),
            ("only_integrates", all(feature.integrate for feature in used)),
            ("mostly_numeric", numbers),
            ("numeric_only", numbers and not any(feature.integrate for feature in used)),
        ):
            object.__setattr__(self, name, value)

    @property
    def targets(self) -> tuple[str, ...]:
        """The target, and the others of a model of several."""
        return (self.target, *(self.other_targets or ()))

    @property
    def group_names(self) -> tuple[str, ...]:
        """The name of each lengthscale (g,), by feature."""
        return tuple(name for feature in self.features for name in feature.group_names)

    @property
    def column_names(self) -> tuple[str, ...]:
        """The name of each column of the design matrix (p,)."""
        return tuple(name for feature in self.features for name in feature.column_names)

    @property
    def groups(self) -> IntArray:
        """Return which lengthscale each column uses (p,), 0 to g-1."""
        sizes = [size for feature in self.features for size in feature.group_sizes]
        return np.repeat(np.arange(len(sizes), dtype=np.int64), sizes)

    @property
    def indicator(self) -> BoolArray:
        """Return which columns are 0/1 and keep their unit (p,)."""
        return np.array([flag for feature in self.features for flag in feature.indicators], dtype=np.bool_)

    @property
    def starts(self) -> IntArray:
        """Return where the columns of each used feature begin in the design matrix, and its width, (f + 1,)."""
        return np.array([*(block.start for block in self.blocks), self.width], dtype=np.int64)

    @property
    def integrates(self) -> bool:
        """Return whether missing cells are integrated over."""
        return any(feature.integrate for feature in self.used)

    def missing_cells(self, inputs: FloatArray) -> FloatArray:
        """Count the missing cells of each row of the design matrix (m, p), (m,): integrated over, or marked.

        InvalidRequestError where the model fills some in unmarked, as versions trained by earlier releases do.
        """
        if self.only_integrates and not np.isnan(inputs).any():
            return np.zeros(len(inputs))
        count = np.isnan(inputs[:, self.starts[:-1]]).sum(axis=1).astype(np.float64)
        for feature, block in zip(self.used, self.blocks, strict=True):
            if feature.indicator:
                count += np.nan_to_num(inputs[:, block.stop - 1])
            elif feature.takes_missing and not feature.integrate:
                raise InvalidRequestError(
                    "include: this version was trained by a release that fills missing cells in unmarked, so `imputed` "
                    "is not known; train it again"
                )
        return np.asarray(count)

    @property
    def offsets(self) -> FloatArray:
        """Return what was taken from each column of the design matrix, (p,): added, nearly the upload's own numbers."""
        found = np.zeros(self.width)
        for feature, block in zip(self.used, self.blocks, strict=True):
            found[block.start] = feature.offset or 0
        return found

    def encode_rows(
        self, rows: Sequence[Sequence[Cell]] | Sequence[Mapping[str, Cell]], cell_errors: CellErrors | None = None
    ) -> FloatArray:
        """Rows as lists in the order of `names`, or as objects by name; all of one sort.

        Where `numeric_only`, 10,000 lists of 8 floats take about 2.5 ms.
        """
        if not rows:
            return np.empty((0, self.width))
        if isinstance(rows[0], Mapping):
            return self.encode_columns(self._columns_of_objects(rows), cell_errors)
        if not set(map(type, rows)) <= {list, tuple} or set(map(len, rows)) != {len(self.features)}:
            self._refuse_row(rows)
        lists = cast(Sequence[Sequence[Cell]], rows)
        if self.numeric_only:
            values = float_matrix(lists)
            if values is not None:
                return values
        return self.encode_columns(
            {
                feature.name: [cells[j] for cells in lists]
                for j, feature in enumerate(self.features)
                if feature.kind is not Kind.UNUSED
            },
            cell_errors,
        )

    def encode_columns(self, columns: Mapping[str, Sequence[Any]], cell_errors: CellErrors | None = None) -> FloatArray:
        """Encode columns by name, all of one length."""
        if self.numeric_only and (values := self._matrix(columns)) is not None:
            return values
        given = self._required(columns)
        used = {feature.name: check_cells(feature.name, given[feature.name]) for feature in self.used}
        rows = common_length(used)
        read = {feature.name: self._column(used[feature.name], feature.number_format) for feature in self.used}
        return self._encode(read, rows, cell_errors or CellErrors())

    def encode_table(self, table: Table, cell_errors: CellErrors | None = None) -> FloatArray:
        """A table; errors name its rows and, of a file, the lines. cell_errors: takes the wrong cells, and where it
        tolerates them the numbers of their rows mean nothing."""
        cell_errors = cell_errors or CellErrors(lines=table.lines)
        table = self.as_given(table)
        return self._encode(self._required(table.columns), table.rows, cell_errors)

    def as_given(self, table: Table) -> Table:
        """A table to predict, its numbers read as the schema says, else as they are written."""
        meant = self._match(table.columns.keys())
        known = {meant[feature.name]: feature.number_format for feature in self.used if feature.name in meant}
        return table.read_as(self.missing, table.number_formats(self.read_options, known))

    def as_trained(self, table: Table) -> Table:
        """The table of the training, read as this schema was fitted on it."""
        return table.read_as(self.missing, table.number_formats(self.read_options))

    def to_json(self) -> dict[str, Any]:
        """A JSON document that `from_json` reads back to an equal schema."""
        return {
            "target": self.target,
            "unseen": self.unseen.value,
            "features": [feature.to_json() for feature in self.features],
            **({} if self.missing is None else {"missing_values": list(self.missing.values)}),
            **self.read_options.to_json(),
            **({} if self.other_targets is None else {"other_targets": list(self.other_targets)}),
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> "Schema":
        """Read what `to_json` wrote. Raise MalformedError if it is something else."""
        try:
            return cls(
                target=expect_text(document["target"]),
                unseen=Unseen(document["unseen"]),
                features=tuple(Feature.from_json(feature) for feature in document["features"]),
                missing=missing_values(document.get("missing_values")),
                read_options=ReadOptions.from_json(document),
                other_targets=tuple(map(expect_text, document["other_targets"]))
                if "other_targets" in document
                else None,
            )
        except (KeyError, TypeError, ValueError) as error:
            raise MalformedError(f"this is not a table schema: {error!r}") from error

    def _encode(self, columns: Mapping[str, Column], rows: int, cell_errors: CellErrors) -> FloatArray:
        inputs = np.zeros((rows, self.width))
        only_missing, unseen = True, False
        for feature, block in zip(self.used, self.blocks, strict=True):
            out = inputs[:, block]
            column = columns[feature.name].read_as(self.missing)
            worse = feature.encode(column, out, cell_errors, allow_unseen=self.unseen is Unseen.PRIOR)
            only_missing = only_missing and not worse
            unseen = unseen or (worse and feature.kind is Kind.CATEGORY)
        if cell_errors.total and not cell_errors.tolerated:
            cell_errors.refuse(_advice(only_missing=only_missing, unseen=unseen))
        return inputs

    def _matrix(self, columns: Mapping[str, Sequence[Any]]) -> FloatArray | None:
        """Columns of finite JSON numbers as the design matrix; None for others, which are looked at one by one."""
        lists = [columns.get(name) for name in self.names]
        if not all(isinstance(cells, list) for cells in lists):
            return None
        numbers = cast(list[list[Cell]], lists)
        if not numbers[0] or len(set(map(len, numbers))) != 1:
            return None
        values = float_matrix(numbers)
        return None if values is None else np.ascontiguousarray(values.T)

    def _column(self, cells: Sequence[Cell], number_format: NumberFormat) -> Column:
        """JSON cells. Their texts are written as the column was in training, or surely otherwise."""
        if number_format == PLAIN or str not in set(map(type, cells)):
            return Column(cells=cells)
        if not self.read_options.sets_number_format:
            cells = [read_text(cell, number_format) if isinstance(cell, str) else cell for cell in cells]
            number_format = NumberFormat(
                number_format.decimal, None if number_format.thousands == "." else number_format.thousands
            )
        return Column(cells=cells, number_format=number_format)

    def _required(self, columns: Mapping[str, T]) -> Mapping[str, T]:
        """The columns of the used features among others, by the features' names."""
        found = self._match(columns.keys())
        absent = [feature.name for feature in self.used if feature.name not in found]
        if absent:
            needed = list_names([feature.name for feature in self.used])
            raise InvalidRequestError(
                f"{plural(len(absent), 'column')} missing: {list_names(absent)}; the model needs {needed}"
                f"{self._suggestion(absent, columns.keys())}",
                [Fault(column=name, message="the column is missing") for name in absent],
            )
        return {name: columns[given] for name, given in found.items()}

    def check_names(self, given: Collection[str]) -> None:
        """InvalidRequestError where a table with these columns lacks one that the model needs."""
        self._required(dict.fromkeys(given))

    def meaning(self, given: Collection[str]) -> dict[str, str]:
        """Return which of the names given each used feature is, where it is there."""
        return self._match(given)

    def _match(self, given: Collection[str]) -> dict[str, str]:
        """Return which of the names given each used feature is: the same, else without the blanks around it."""
        return match_names([feature.name for feature in self.used], given, (*self.names, *self.targets))

    def _suggestion(self, absent: Sequence[str], given: Collection[str]) -> str:
        """Return what a name that is missing may be called there."""
        others = [name for name in given if name not in self.names]
        close = [(near, name) for name in absent if (near := closest_name(name, others)) is not None]
        return "".join(f"; did you mean {name!r} by {near!r}?" for near, name in close[:1])

    def _columns_of_objects(self, rows: Sequence[Any]) -> dict[str, list[Cell]]:
        names = [feature.name for feature in self.used]
        try:
            return {name: [row[name] for row in rows] for name in names}
        except (KeyError, TypeError):  # a name with blanks around it, or a row that is wrong
            found = self._refuse_row(rows)
            return {name: [row[meant[name]] for row, meant in zip(rows, found, strict=True)] for name in names}

    def _refuse_row(self, rows: Sequence[Any]) -> list[dict[str, str]]:
        """Return which of its names each feature is, for every row that is an object.

        Raises for the first row that is of another sort, too short or too long, or without a column.
        """
        objects = isinstance(rows[0], Mapping)
        meant: dict[tuple[str, ...], dict[str, str]] = {}
        found = []
        for row, cells in enumerate(rows):
            if objects and isinstance(cells, Mapping):
                given = tuple(cells)
                if given not in meant:
                    meant[given] = self._match(cells.keys())
                found.append(meant[given])
                absent = [feature.name for feature in self.used if feature.name not in found[-1]]
                if absent:
                    message = f"{plural(len(absent), 'column')} missing: {list_names(absent)}"
                    message += self._suggestion(absent, given)
                    raise InvalidRequestError(
                        f"row {row}: {message}",
                        [Fault(row=row, column=name, message="the column is missing") for name in absent],
                    )
            elif objects or not isinstance(cells, list | tuple):
                expected = "an object, as in row 0" if objects else "a list of cells"
                message = f"expected {expected}, got {json_type(cells)}"
                raise InvalidRequestError(f"row {row}: {message}", [Fault(row=row, message=message)])
            elif len(cells) != len(self.features):
                message = f"expected {len(self.features)} cells ({list_names(self.names)}), got {len(cells)}"
                raise InvalidRequestError(f"row {row}: {message}", [Fault(row=row, message=message)])
        return found


def _advice(*, only_missing: bool, unseen: bool) -> str:
    """Advise what to do about cells that cannot be used. unseen: some are levels that training has not seen."""
    if only_missing:
        return "the model was trained without missing cells here, so every row needs a value"
    if unseen:
        return 'correct it and send the table again, or train with "unseen": "prior" to have such rows answered too'
    return "correct it and send the table again"
