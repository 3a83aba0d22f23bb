"""Tables: an upload's bytes or JSON to named columns, and those to the design matrix of a model."""

from app.tables.columns.cell_errors import CellErrors
from app.tables.columns.read_options import AUTODETECT, ReadOptions
from app.tables.columns.row_set import RowSet
from app.tables.columns.table import Column, Kind, Table
from app.tables.columns.type_inference import MAX_MIXED_LEVELS
from app.tables.read.canonical import (
    canonical_parts,
    canonical_rows,
    join_canonical,
    open_canonical,
    write_table,
    write_text_blocks,
)
from app.tables.read.file_set import FileSet, file_set_parts, file_set_rows, file_set_table, read_file_set
from app.tables.read.formats import is_binary, is_truncated, open_file, read_table
from app.tables.read.json_tables import flatten_column, from_columns, from_rows
from app.tables.read.limits import Limits
from app.tables.read.source import Source
from app.tables.schema.appended import check_appended
from app.tables.schema.design_matrix import DesignMatrix, TrainingRows
from app.tables.schema.features import Feature
from app.tables.schema.fitting import build_design_matrix, fit_schema, fit_table
from app.tables.schema.row_groups import GroupedBy
from app.tables.schema.schema import Schema, Unseen
from app.tables.schema.table_fit import TableFit, options_digest
from app.tables.schema.table_options import Missing, TableOptions
from app.tables.schema.targets import check_targets, design_matrices, schema_of, target_rows

__all__ = [
    "AUTODETECT",
    "MAX_MIXED_LEVELS",
    "CellErrors",
    "Column",
    "DesignMatrix",
    "Feature",
    "FileSet",
    "GroupedBy",
    "Kind",
    "Limits",
    "Missing",
    "ReadOptions",
    "RowSet",
    "Schema",
    "Source",
    "Table",
    "TableFit",
    "TableOptions",
    "TrainingRows",
    "Unseen",
    "build_design_matrix",
    "canonical_parts",
    "canonical_rows",
    "check_appended",
    "check_targets",
    "design_matrices",
    "file_set_parts",
    "file_set_rows",
    "file_set_table",
    "fit_schema",
    "fit_table",
    "flatten_column",
    "from_columns",
    "from_rows",
    "is_binary",
    "is_truncated",
    "join_canonical",
    "open_canonical",
    "open_file",
    "options_digest",
    "read_file_set",
    "read_table",
    "schema_of",
    "target_rows",
    "write_table",
    "write_text_blocks",
]
