"""Checks of a specification against the table that it is for."""

from core.data import Dataset
from core.errors import InvalidDataError, InvalidSpecError
from core.spec import TrainSpec


def check_spec(spec: TrainSpec, dataset: Dataset) -> None:
    """Raise InvalidSpecError for a field that does not fit the table, InvalidDataError for rows of one group. O(1)."""
    if not dataset.row_groups.alone:
        if dataset.row_groups.count < 2:
            raise InvalidDataError("all rows are of one group: there is no other to predict it from")
        if spec.calibrate is None:
            raise InvalidSpecError("calibrate", "rows that are left out in groups are what it calibrates by: not off")
    features = int(dataset.groups.max()) + 1
    if spec.start is not None and len(spec.start.lengthscales) != features:
        raise InvalidSpecError(
            "hyperparameters.lengthscales",
            f"expected {features}, one for each feature, got {len(spec.start.lengthscales)}",
        )
    rows = len(dataset.targets)
    if spec.bounds is not None and any(not 0 <= row < rows for row in spec.bounds.rows):
        raise InvalidSpecError("bounds.rows", f"expected rows from 0 to {rows - 1}")
    if isinstance(spec.mean_rows, int) and spec.mean_rows > rows:
        raise InvalidSpecError("mean_rows", f"expected at most the {rows} rows that are used, got {spec.mean_rows}")
