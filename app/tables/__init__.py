"""Tables: an upload's bytes or JSON to named columns, and those to the design matrix of a model."""

from app.tables.fitting import MOST_LEVELS, Missing, fit_schema
from app.tables.prepared import Prepared, read_prepared, write_prepared
from app.tables.reading import from_columns, from_rows, read_csv
from app.tables.schema import Feature, Schema, Unseen
from app.tables.source import Limits
from app.tables.table import Column, Kind, Table

__all__ = [
    "MOST_LEVELS",
    "Column",
    "Feature",
    "Kind",
    "Limits",
    "Missing",
    "Prepared",
    "Schema",
    "Table",
    "Unseen",
    "fit_schema",
    "from_columns",
    "from_rows",
    "read_csv",
    "read_prepared",
    "write_prepared",
]
