"""`pursuit keys`: API keys, by whoever may write to the database; so there is a way to the first one."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from app.cli import display
from app.cli.arguments import split_values, split_words
from app.cli.client import ClientError
from app.cli.environment import read_settings
from app.cli.options import AsJson
from app.cli.output import print_json
from app.cli.spec_values import SCOPES

if TYPE_CHECKING:
    from app.services.keys.caller import Caller
    from app.services.keys.keys import Keys
    from app.storage.api_keys import ApiKey

keys = typer.Typer(no_args_is_help=True, help="Create, list and revoke API keys; see what was done with them.")

DataDir = Annotated[Path | None, typer.Option(help="Directory of the embedded store.", show_default="./pursuit-data")]
Count = Annotated[int, typer.Option("--limit", min=1, max=500, help="How many, the newest first.")]
OfKey = Annotated[str | None, typer.Option("--key-id", help="Only of this key.")]

_UNITS = {"m": 60.0, "h": 3_600.0, "d": 86_400.0, "w": 7 * 86_400.0}


@keys.command()
def create(
    *,
    scope: Annotated[
        list[str],
        typer.Option(
            metavar="SCOPE[,SCOPE..]",
            help=f"What it is for: {', '.join(SCOPES)}. admin includes all others, train predict.",
            autocompletion=lambda: list(SCOPES),
        ),
    ],
    name: Annotated[str, typer.Option(help="Whose it is.")] = "",
    expires: Annotated[
        str | None, typer.Option(metavar="90d|12h|30m|2w|DATE", help="When it ends.", show_default="never")
    ] = None,
    models: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME[,NAME..]", help="The only models that it may use.", show_default="all"),
    ] = None,
    requests_per_minute: Annotated[int | None, typer.Option(min=1, help="Requests that it may send.")] = None,
    rows_per_minute: Annotated[int | None, typer.Option(min=1, help="Rows that it may have predicted.")] = None,
    queued_jobs: Annotated[int | None, typer.Option(min=1, help="Jobs that may wait at once.")] = None,
    stored_bytes: Annotated[int | None, typer.Option(min=1, help="Its datasets, models and tables of jobs.")] = None,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Create a key. Its token is printed, alone on standard output, and cannot be read again."""
    scopes = split_words(scope, SCOPES, "--scope")
    only = split_values(models, "--models") if models else None
    seconds = None if expires is None else _seconds(expires)
    with _keys(data_dir) as (service, caller):
        from app.services.keys.keys import KeyRequest, key_document
        from app.storage.api_keys import KeyLimits

        limits = KeyLimits(
            requests_per_minute=requests_per_minute,
            rows_per_minute=rows_per_minute,
            queued_jobs=queued_jobs,
            stored_bytes=stored_bytes,
        )
        request = KeyRequest(scopes=scopes, name=name, models=only, seconds=seconds, limits=limits)
        key, token = service.create(request, caller)
        document = key_document(key)
    if as_json:
        print_json({**document, "token": token})
        return
    ends = f", until {_day(key.expires_at)}" if key.expires_at is not None else ""
    typer.echo(f"key {key.id} for {', '.join(sorted(key.scopes))}{ends}; this is shown once:", err=True)
    typer.echo(token)


@keys.command("list")
def list_keys(limit: Count = 100, as_json: AsJson = False, data_dir: DataDir = None) -> None:
    """List the keys, without their secrets."""
    with _keys(data_dir) as (service, _):
        from app.services.keys.keys import key_document

        found, _ = service.page(limit=limit, cursor=None)
        documents = [key_document(key) for key in found]
    if as_json:
        print_json(documents)
    elif found:
        heads = ("id", "name", "scopes", "models", "created", "ends", "state")
        _show([_shown(key) for key in found], heads, as_json=False)
    else:
        typer.echo(f"there are no keys in {_place(data_dir)}")


@keys.command()
def revoke(
    key_id: Annotated[str, typer.Argument(help="Id of the key, or its token.")],
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """End a key for good; every API refuses it within five seconds."""
    with _keys(data_dir) as (service, caller):
        from app.services.keys.keys import key_document

        key, was_live = service.revoke(_id(key_id), caller)
        document = key_document(key)
    if as_json:
        print_json(document)
    elif was_live or key.revoked_at is None:
        typer.echo(f"key {key.id} is revoked")
    else:
        typer.echo(f"key {key.id} was revoked before, at {_time(key.revoked_at)} UTC")


@keys.command()
def audit(
    *,
    limit: Count = 50,
    key_id: OfKey = None,
    usage: Annotated[bool, typer.Option("--usage", help="Predictions and reads by minute instead.")] = False,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Show who trained, promoted, deleted or created keys, when and from where."""
    only = None if key_id is None else _id(key_id)
    with _keys(data_dir) as (service, _):
        if usage:
            counts, _ = service.usage(limit=limit, cursor=None, key_id=only)
            heads: tuple[str, ...] = ("minute", "key", "action", "model", "requests", "rows")
            rows: list[dict[str, object]] = [
                {
                    "minute": _time(60.0 * one.minute),
                    "key": one.key_id,
                    "action": one.action,
                    "model": one.model,
                    "requests": one.requests,
                    "rows": one.rows,
                }
                for one in counts
            ]
        else:
            entries, _ = service.audit(limit=limit, cursor=None, key_id=only)
            heads = ("at", "key", "address", "action", "subject", "detail")
            rows = [
                {
                    "at": _time(one.at),
                    "key": one.key_id or "-",
                    "address": one.address,
                    "action": one.action,
                    "subject": one.subject,
                    "detail": " ".join(f"{name}={_text(value)}" for name, value in (one.detail or {}).items()),
                }
                for one in entries
            ]
    _show(rows, heads, as_json)


@contextmanager
def _keys(data_dir: Path | None) -> Iterator[tuple["Keys", "Caller"]]:
    """Open the keys of the database, migrated; print what goes wrong and end with code 1."""
    settings = read_settings(data_dir=data_dir)
    from app.cli import servers

    servers.migrate(settings)
    from app.database.engine import Database
    from app.errors import PursuitError
    from app.services.keys.caller import Caller
    from app.services.keys.keys import Keys

    try:
        with Database(settings.database) as database:
            yield Keys(database), Caller(address="command line")
    except PursuitError as error:
        raise ClientError(error.message) from None


def _text(value: object) -> str:
    """A value of the log for a person: text as it is, a list with commas, anything else as JSON."""
    if isinstance(value, list):
        return ",".join(map(_text, value))
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _place(data_dir: Path | None) -> str:
    """Return the database that is looked at, without its password."""
    from sqlalchemy import make_url

    return make_url(read_settings(data_dir=data_dir).database).render_as_string(hide_password=True)


def _shown(key: "ApiKey") -> dict[str, str]:
    """Return what a person is shown of a key: everything but its secret."""
    return {
        "id": key.id,
        "name": key.name,
        "scopes": ",".join(sorted(key.scopes)),
        "models": "all" if key.models is None else ",".join(sorted(key.models)),
        "created": _day(key.created_at),
        "ends": "never" if key.expires_at is None else _day(key.expires_at),
        "state": _state(key),
    }


def _seconds(text: str) -> float:
    """Parse how long a key lasts: a number with a unit, or a date."""
    found = re.fullmatch(r"([0-9]{1,6})([mhdw])", text.strip())
    if found:
        return int(found[1]) * _UNITS[found[2]]
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise typer.BadParameter(f"expected 90d, 12h or 2030-01-31, got {text!r}", param_hint="--expires") from None
    seconds = ((moment if moment.tzinfo else moment.astimezone()) - datetime.now(UTC)).total_seconds()
    if seconds <= 0:
        raise typer.BadParameter(f"{text} is over", param_hint="--expires")
    return seconds


def _id(text: str) -> str:
    """Cut the id out of a token."""
    return text.split("_")[1] if text.startswith("pk_") else text


def _state(key: "ApiKey") -> str:
    if key.revoked_at is not None:
        return "revoked"
    expired = key.expires_at is not None and key.expires_at <= datetime.now(UTC).timestamp()
    return "expired" if expired else "live"


def _day(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).date().isoformat()


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")


def _show(rows: list[dict[str, str]] | list[dict[str, object]], heads: tuple[str, ...], as_json: bool) -> None:
    if as_json:
        print_json(rows)
        return
    display.grid(Console(), heads, [[row[head] for head in heads] for row in rows], whole=("id", "key"))
