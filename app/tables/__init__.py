"""Tables: an upload's bytes or JSON to named columns, and those to the design matrix of a model."""

from app.tables.columns.read_options import AS_IT_SHOWS, ReadOptions
from app.tables.columns.table import Column, Kind, Table
from app.tables.columns.type_inference import MOST_LEVELS
from app.tables.read.canonical import open_canonical, write_held, write_incoming
from app.tables.read.formats import is_binary, open_file, read_table
from app.tables.read.json_tables import flat, from_columns, from_rows
from app.tables.read.limits import Limits
from app.tables.read.source import Source
from app.tables.schema.design_matrix import Fitted, Prepared
from app.tables.schema.features import Feature
from app.tables.schema.fitting import fit_schema, fit_table, prepare
from app.tables.schema.schema import Schema, Unseen
from app.tables.schema.table_options import Missing, Wishes

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
