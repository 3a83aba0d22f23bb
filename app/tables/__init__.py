"""Tables: an upload's bytes or JSON to named columns, and those to the design matrix of a model."""

from app.tables.canonical import open_canonical, write_held, write_incoming
from app.tables.features import Feature
from app.tables.fitting import fit_schema, fit_table, prepare
from app.tables.formats import is_binary, open_file, read_table
from app.tables.guessing import MOST_LEVELS
from app.tables.jsoned import from_columns, from_rows
from app.tables.limits import Limits
from app.tables.prepared import Fitted, Prepared
from app.tables.schema import Schema, Unseen
from app.tables.source import Source
from app.tables.table import Column, Kind, Table
from app.tables.wishes import Missing, Wishes

__all__ = [
    "MOST_LEVELS",
    "Column",
    "Feature",
    "Fitted",
    "Kind",
    "Limits",
    "Missing",
    "Prepared",
    "Schema",
    "Source",
    "Table",
    "Unseen",
    "Wishes",
    "fit_schema",
    "fit_table",
    "from_columns",
    "from_rows",
    "is_binary",
    "open_canonical",
    "open_file",
    "prepare",
    "read_table",
    "write_held",
    "write_incoming",
]
