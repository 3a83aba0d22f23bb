"""Tables: an upload's bytes or JSON to named columns, and those to the design matrix of a model."""

from app.tables.canonical import open_canonical, write_held, write_incoming
from app.tables.features import Feature
from app.tables.fitting import fit_schema, fit_table, prepare
from app.tables.formats import is_binary, open_file, read_table
from app.tables.guessing import MOST_LEVELS
from app.tables.jsoned import flat, from_columns, from_rows
from app.tables.limits import Limits
from app.tables.prepared import Fitted, Prepared
from app.tables.read_options import AS_IT_SHOWS, ReadOptions
from app.tables.schema import Schema, Unseen
from app.tables.source import Source
from app.tables.table import Column, Kind, Table
from app.tables.wishes import Missing, Wishes

__all__ = [
    "AS_IT_SHOWS",
    "MOST_LEVELS",
    "Column",
    "Feature",
    "Fitted",
    "Kind",
    "Limits",
    "Missing",
    "Prepared",
    "ReadOptions",
    "Schema",
    "Source",
    "Table",
    "Unseen",
    "Wishes",
    "fit_schema",
    "fit_table",
    "flat",
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
