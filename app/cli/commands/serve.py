"""`pursuit serve`, `api`, `worker`, `migrate`: the servers, and their database."""

from pathlib import Path
from typing import Annotated

import typer

from app.cli.environment import read_settings
from app.cli.options import AsJson
from app.cli.output import print_json

Host = Annotated[str | None, typer.Option(help="Address to listen on.", show_default="127.0.0.1")]
Port = Annotated[int | None, typer.Option(help="Port to listen on; 0 takes a free one.", show_default="8000")]
DataDir = Annotated[Path | None, typer.Option(help="Directory of the embedded store.", show_default="./pursuit-data")]
Insecure = Annotated[
    bool | None, typer.Option("--insecure", help="Listen on any address without an API key: everybody is let in.")
]
WhileStdin = Annotated[bool, typer.Option("--while-stdin", hidden=True)]
ServeJson = Annotated[
    bool, typer.Option("--json", help='Print {"url": ..} once it listens, and log lines of JSON on standard error.')
]


def serve(
    host: Host = None,
    port: Port = None,
    data_dir: DataDir = None,
    workers: Annotated[int | None, typer.Option(min=0, help="Worker processes.", show_default="1")] = None,
    insecure: Insecure = None,
    as_json: ServeJson = False,
    socket: Annotated[Path | None, typer.Option(hidden=True)] = None,
    while_stdin: WhileStdin = False,
) -> None:
    """Serve the API and work on jobs: API and worker processes in one."""
    from app.cli import servers

    logs = "json" if as_json else None
    settings = read_settings(
        host=host, port=port, data_dir=data_dir, workers=workers, insecure=insecure, log_format=logs
    )
    servers.serve(settings, unix_socket=socket, while_stdin=while_stdin)


def api(
    host: Host = None,
    port: Port = None,
    data_dir: DataDir = None,
    insecure: Insecure = None,
    as_json: ServeJson = False,
) -> None:
    """Serve the API only; start workers with `pursuit worker`."""
    from app.cli import servers

    logs = "json" if as_json else None
    servers.run_api(read_settings(host=host, port=port, data_dir=data_dir, insecure=insecure, log_format=logs))


def worker(
    data_dir: DataDir = None,
    as_json: Annotated[bool, typer.Option("--json", help="Log lines of JSON on standard error.")] = False,
    while_stdin: WhileStdin = False,
    name: Annotated[str | None, typer.Option(hidden=True)] = None,
) -> None:
    """Work on jobs, one at a time."""
    from app.cli import servers

    settings = read_settings(data_dir=data_dir, log_format="json" if as_json else None)
    servers.run_worker(settings, while_stdin=while_stdin, name=name)


def migrate(data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """Bring the database's schema to the newest version."""
    from app.cli import servers

    settings = read_settings(data_dir=data_dir)
    servers.migrate(settings)
    if as_json:
        from sqlalchemy import make_url

        print_json({"database": make_url(settings.database).render_as_string(), "migrated": True})
    else:
        typer.echo("the database's schema is at the newest version")
