"""`/keys` and `/audit`: API keys, and what was done with them."""

from datetime import UTC, datetime
from typing import Annotated, Any, Literal

import msgspec
from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, Field
from starlette.responses import Response

from app.errors import InvalidRequestError
from app.routes.http.answers import json_answer, problems
from app.routes.http.bodies import JSON, expect_media_type
from app.routes.http.callers import caller_of
from app.routes.http.content_encoding import read_json
from app.routes.http.fields import (
    NAME,
    ApiKeyCursor,
    ApiKeyIdText,
    AuditCursor,
    Limit,
    ModelName,
    Moment,
    NameText,
    NextCursor,
    UsageCursor,
    of_pattern,
)
from app.routes.http.fields import ApiKeyIdPath as KeyId
from app.routes.http.services import in_thread, services
from app.services.decoding import decode
from app.services.keys.caller import KeyScope
from app.services.keys.keys import KeyRequest, key_document
from app.storage.api_keys import KeyLimits
from app.storage.audit import AuditAction
from app.times import rfc3339

router = APIRouter(tags=["keys"])

OfKey = Annotated[str | None, Query(pattern="^[0-9a-f]{16}$", description="Only what this key did: its id.")]


class LimitsBody(BaseModel):
    """Limits of a key over all API processes; null: none."""

    requests_per_minute: int | None = Field(description="Requests that it may send.")
    rows_per_minute: int | None = Field(description="Rows that it has predicted.")
    queued_jobs: int | None = Field(description="Its jobs that may wait at once.")
    stored_bytes: int | None = Field(description="Of its datasets, models, and tables of jobs that have not ended.")


class KeyBody(BaseModel):
    """A key, without its secret."""

    id: ApiKeyIdText = Field(description="Id of the key.")
    name: str = Field(description="Whose it is, as its creator wrote.")
    scopes: list[KeyScope] = Field(description="What it may do.")
    models: list[NameText] | None = Field(description="The only models that it may use; null: all.")
    limits: LimitsBody = Field(description="Its limits.")
    created_at: Moment = Field(description="When it was created.")
    created_by: ApiKeyIdText | None = Field(description="Id of the key that created it; null: the command line.")
    expires_at: Moment | None = Field(description="When it ends by itself; null: never.")
    revoked_at: Moment | None = Field(description="When it was revoked; null: it was not.")


class NewKeyBody(KeyBody):
    """A key that was just created."""

    token: Annotated[str, of_pattern("^pk_[0-9a-f]{16}_[0-9a-f]{64}$")] = Field(
        description="`pk_<id>_<secret>`: shown here and never again."
    )


class KeysBody(BaseModel):
    """A page of keys, the newest first."""

    keys: list[KeyBody] = Field(description="Keys of this page.")
    next_cursor: NextCursor


class AuditEntryBody(BaseModel):
    """One change."""

    id: int = Field(description="Number of the entry.")
    at: Moment = Field(description="When it was done.")
    action: AuditAction = Field(description="What was done.")
    subject: str = Field(description="Model, `name@version`, dataset, job or key.")
    detail: dict[str, Any] | None = Field(description="More of it, by action.")
    key: ApiKeyIdText | None = Field(description="Id of the key; null where none was needed.")
    address: str = Field(description="Of the client; `command line` for commands on the database.")
    request_id: str = Field(description="`X-Request-ID` of the request.")


class AuditBody(BaseModel):
    """A page of the audit log, the newest first."""

    entries: list[AuditEntryBody] = Field(description="Entries of this page.")
    next_cursor: NextCursor


class UsageBody(BaseModel):
    """Predictions, or reads, of one model by one key within one minute."""

    minute: Moment = Field(description="Beginning of the minute.")
    key: ApiKeyIdText = Field(description="Id of the key.")
    model: ModelName
    action: Literal["predict", "read"] = Field(description="What was done.")
    requests: int = Field(description="How many requests.")
    rows: int = Field(description="How many rows were predicted.")


class UsagesBody(BaseModel):
    """A page of use, the newest first."""

    usage: list[UsageBody] = Field(description="Counts of this page.")
    next_cursor: NextCursor


class NewKeyRequest(msgspec.Struct, forbid_unknown_fields=True):
    """The body of `POST /keys`."""

    scopes: list[str]
    name: str = ""
    models: list[str] | None = None
    expires_at: datetime | None = None
    requests_per_minute: int | None = None
    rows_per_minute: int | None = None
    queued_jobs: int | None = None
    stored_bytes: int | None = None


def _positive(description: str) -> dict[str, Any]:
    return {"type": ["integer", "null"], "minimum": 1, "maximum": 2**63 - 1, "description": description}


_REQUEST: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            JSON: {
                "schema": {
                    "type": "object",
                    "required": ["scopes"],
                    "additionalProperties": False,
                    "properties": {
                        "scopes": {
                            "type": "array",
                            "minItems": 1,
                            "items": {"enum": [scope.value for scope in KeyScope]},
                            "description": "What it may do.",
                        },
                        "name": {"type": "string", "maxLength": 64, "description": "Whose it is, for people."},
                        "models": {
                            "type": ["array", "null"],
                            "minItems": 1,
                            "items": {"type": "string", "pattern": NAME},
                            "description": "The only models that it may use; null: all.",
                        },
                        "expires_at": {
                            "type": ["string", "null"],
                            "format": "date-time",
                            "description": "When it ends, with its zone, within a hundred years from now; null: never.",
                        },
                        "requests_per_minute": _positive("Requests that it may send."),
                        "rows_per_minute": _positive("Rows that it may have predicted."),
                        "queued_jobs": _positive("Its jobs that may wait at once."),
                        "stored_bytes": _positive("Of its datasets, models, and tables of jobs that have not ended."),
                    },
                },
                "example": {"scopes": ["predict"], "name": "dashboard", "models": ["cars"], "requests_per_minute": 600},
            }
        },
    }
}


@router.post(
    "/keys",
    status_code=201,
    response_class=Response,
    summary="Create an API key",
    responses={201: {"model": NewKeyBody}, **problems(400, 408, 413, 415, 422)},
    openapi_extra=_REQUEST,
)
async def create(request: Request) -> Response:
    """The answer has the token, which is shown once. Other processes take it at once."""
    expect_media_type(request, JSON)
    app = services(request)
    body = decode(await read_json(request, app.settings.max_body_bytes), NewKeyRequest)
    limits = KeyLimits(
        requests_per_minute=body.requests_per_minute,
        rows_per_minute=body.rows_per_minute,
        queued_jobs=body.queued_jobs,
        stored_bytes=body.stored_bytes,
    )
    seconds = None if body.expires_at is None else _seconds_until(body.expires_at)
    wanted = KeyRequest(scopes=body.scopes, name=body.name, models=body.models, seconds=seconds, limits=limits)
    key, token = await in_thread(app.keys.create, wanted, caller_of(request))
    await app.key_ring.forget()
    return json_answer(key_document(key) | {"token": token}, 201, {"Cache-Control": "no-store"})


@router.get(
    "/keys", response_class=Response, summary="List API keys", responses={200: {"model": KeysBody}, **problems(422)}
)
async def list_keys(request: Request, limit: Limit = 50, cursor: ApiKeyCursor = None) -> Response:
    """The newest first, with those that are revoked or have expired; `next_cursor` is null on the last page."""
    found, following = await in_thread(
        services(request).keys.page, limit=limit, cursor=cursor, caller=caller_of(request)
    )
    return json_answer({"keys": [key_document(key) for key in found], "next_cursor": following})


@router.delete(
    "/keys/{key_id}",
    response_class=Response,
    summary="Revoke an API key",
    responses={200: {"model": KeyBody}, **problems(404)},
)
async def revoke(request: Request, key_id: KeyId) -> Response:
    """For good. All processes refuse it within five seconds."""
    app = services(request)
    key, _ = await in_thread(app.keys.revoke, key_id, caller_of(request))
    await app.key_ring.forget()
    return json_answer(key_document(key))


@router.get(
    "/audit", response_class=Response, summary="The audit log", responses={200: {"model": AuditBody}, **problems(422)}
)
async def list_audit(
    request: Request,
    action: Annotated[AuditAction | None, Query(description="Only this.")] = None,
    key: OfKey = None,
    limit: Limit = 50,
    cursor: AuditCursor = None,
) -> Response:
    """Return who trained, promoted, deleted, when and from where, newest first (`PURSUIT_KEEP_AUDIT_DAYS`)."""
    found, following = await in_thread(
        services(request).keys.audit, limit=limit, cursor=cursor, action=action, key_id=key, caller=caller_of(request)
    )
    entries = [
        {
            "id": entry.id,
            "at": rfc3339(entry.at),
            "action": entry.action,
            "subject": entry.subject,
            "detail": entry.detail,
            "key": entry.key_id,
            "address": entry.address,
            "request_id": entry.request_id,
        }
        for entry in found
    ]
    return json_answer({"entries": entries, "next_cursor": following})


@router.get(
    "/audit/usage",
    response_class=Response,
    summary="Predictions and reads by key",
    responses={200: {"model": UsagesBody}, **problems(422)},
)
async def list_usage(request: Request, key: OfKey = None, limit: Limit = 50, cursor: UsageCursor = None) -> Response:
    """Counts by key, minute, model and action, the newest first; some seconds late."""
    found, following = await in_thread(
        services(request).keys.usage, limit=limit, cursor=cursor, key_id=key, caller=caller_of(request)
    )
    usage = [
        {
            "minute": rfc3339(60.0 * one.minute),
            "key": one.key_id,
            "model": one.model,
            "action": one.action,
            "requests": one.requests,
            "rows": one.rows,
        }
        for one in found
    ]
    return json_answer({"usage": usage, "next_cursor": following})


def _seconds_until(moment: datetime) -> float:
    if moment.tzinfo is None:
        raise InvalidRequestError(
            f"expires_at: expected a time with its zone, as in 2030-01-31T00:00:00Z; got {moment}"
        )
    return (moment - datetime.now(UTC)).total_seconds()
