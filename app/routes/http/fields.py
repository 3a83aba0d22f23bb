"""Fields, parameters and headers that mean the same in every route, with what the OpenAPI document says of them.

Patterns are told and not checked here: services check names and ids, and refuse them in sentences of their own.
"""

from typing import Annotated, Any

from fastapi import Path, Query
from pydantic import Field

from app.identifiers import API_KEY_ID_LENGTH, LARGEST_VERSION, NAME_PATTERN

NAME = f"^{NAME_PATTERN}$"
ALIAS = f"^(?![0-9]+$){NAME_PATTERN}$"
REFERENCE = f"^{NAME_PATTERN}(@{NAME_PATTERN})?$"
JOB_ID = "^job_[0-9a-f]{32}$"
DATASET_ID = "^ds_[0-9a-f]{32}$"
API_KEY_ID = f"^[0-9a-f]{{{API_KEY_ID_LENGTH}}}$"
VERSION = "^[0-9]{1,9}$"


def of_pattern(pattern: str, **more: Any) -> Any:
    """Return what the document says of a text of this form."""
    return Field(json_schema_extra={"pattern": pattern, **more})


NameText = Annotated[str, of_pattern(NAME)]
AliasText = Annotated[str, of_pattern(ALIAS)]
JobIdText = Annotated[str, of_pattern(JOB_ID)]
DatasetIdText = Annotated[str, of_pattern(DATASET_ID)]
ApiKeyIdText = Annotated[str, of_pattern(API_KEY_ID)]
Moment = Annotated[str, Field(json_schema_extra={"format": "date-time"})]
VersionNumber = Annotated[int, Field(ge=1, le=LARGEST_VERSION)]

ModelName = Annotated[NameText, Field(description="Name of the model.")]
ModelVersion = Annotated[VersionNumber, Field(description="Number of the version.")]
NextCursor = Annotated[
    str | None,
    Field(description="`cursor` of the next page; null on the last one.", json_schema_extra={"minLength": 1}),
]

NamePath = Annotated[str, Path(description="Name of the model.", json_schema_extra={"pattern": NAME})]
ReferencePath = Annotated[
    str,
    Path(description="Name of the model, or a reference of one, `name@3`.", json_schema_extra={"pattern": REFERENCE}),
]
AliasPath = Annotated[
    str, Path(description="Name of the alias, which is not digits alone.", json_schema_extra={"pattern": ALIAS})
]
NumberPath = Annotated[
    int, Path(description="Number of the version.", ge=1, json_schema_extra={"maximum": LARGEST_VERSION})
]
JobIdPath = Annotated[str, Path(description="Id of the job.", json_schema_extra={"pattern": JOB_ID})]
DatasetIdPath = Annotated[str, Path(description="Id of the dataset.", json_schema_extra={"pattern": DATASET_ID})]
ApiKeyIdPath = Annotated[
    str,
    Path(description="Id of the key: the 16 digits after `pk_`.", json_schema_extra={"pattern": API_KEY_ID}),
]
Limit = Annotated[int, Query(ge=1, le=500, description="How many at most.")]

_PAGE = Query(description="`next_cursor` of the page before.")
NameCursor = Annotated[NameText | None, _PAGE]
VersionCursor = Annotated[Annotated[str, of_pattern(VERSION)] | None, _PAGE]
JobCursor = Annotated[JobIdText | None, _PAGE]
DatasetCursor = Annotated[DatasetIdText | None, _PAGE]
ApiKeyCursor = Annotated[ApiKeyIdText | None, _PAGE]
AuditCursor = Annotated[Annotated[str, of_pattern("^[0-9]{1,18}$")] | None, _PAGE]
UsageCursor = Annotated[Annotated[str, of_pattern("^[0-9]{1,11}(:[A-Za-z0-9._-]+){3}$")] | None, _PAGE]
"""Cursors of lists, which have the form of what the page before ended with."""
TARGET: dict[str, Any] = {
    "type": ["string", "null"],
    "minLength": 1,
    "description": "Which of several targets; the only one need not be named.",
}
TargetQuery = Annotated[
    Annotated[str, Field(json_schema_extra={"minLength": 1})] | None,
    Query(description="Which of several targets; by default the first."),
]
