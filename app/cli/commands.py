"""`pursuit`: servers, and clients of one. Exit code 1 is a refusal or failure, 2 a wrong command line."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from app.cli import display
from app.cli.arguments import existing_file, file_content, json_object, media_type, numbers, split_values, write_content
from app.cli.client import Client, ClientError, Json
from app.cli.environment import read_settings
from app.cli.keys import keys
from app.cli.progress import watch
from app.cli.service import local_service

cli = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

Host = Annotated[str | None, typer.Option(help="Address to listen on.", show_default="127.0.0.1")]
Port = Annotated[int | None, typer.Option(help="Port to listen on; 0 takes a free one.", show_default="8000")]
DataDir = Annotated[Path | None, typer.Option(help="Directory of the embedded store.", show_default="./pursuit-data")]
Url = Annotated[str, typer.Option(envvar="PURSUIT_URL", help="The server.")]
Key = Annotated[str | None, typer.Option(envvar="PURSUIT_API_KEY", help="An API key of the server.")]
Insecure = Annotated[
    bool | None, typer.Option("--insecure", help="Listen on any address without an API key: everybody is let in.")
]
Local = Annotated[bool, typer.Option("--local", help="Work on the data directory, without a running server.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the server's JSON.")]
ExistingFile = Annotated[Path, typer.Argument(exists=True, dir_okay=False, readable=True)]
Target = Annotated[str | None, typer.Option(help="Column to predict.", show_default="the last")]
Spec = Annotated[str, typer.Option(help="Any other fields of the spec, as a JSON object.")]
WhileStdin = Annotated[bool, typer.Option("--while-stdin", hidden=True)]
DEFAULT_URL = "http://127.0.0.1:8000"

cli.add_typer(keys, name="keys")


def _print_version(value: bool) -> None:
    if value:
        from importlib.metadata import PackageNotFoundError, version

        try:
            typer.echo(f"pursuit {version('pursuit-gp')}")
        except PackageNotFoundError:  # a checkout that is not installed
            typer.echo("pursuit, of no known version")
        raise typer.Exit


@cli.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Show the version and exit.")
    ] = False,
) -> None:
    """Regression with honest error bars, as a service."""


@cli.command()
def serve(
    host: Host = None,
    port: Port = None,
    data_dir: DataDir = None,
    workers: Annotated[int | None, typer.Option(min=0, help="Worker processes.", show_default="1")] = None,
    insecure: Insecure = None,
    socket: Annotated[Path | None, typer.Option(hidden=True)] = None,
    while_stdin: WhileStdin = False,
) -> None:
    """Serve the API and work on jobs: API and worker processes in one."""
    from app.cli import servers

    settings = read_settings(host=host, port=port, data_dir=data_dir, workers=workers, insecure=insecure)
    servers.serve(settings, unix_socket=socket, while_stdin=while_stdin)


@cli.command()
def api(host: Host = None, port: Port = None, data_dir: DataDir = None, insecure: Insecure = None) -> None:
    """Serve the API only; start workers with `pursuit worker`."""
    from app.cli import servers

    servers.run_api(read_settings(host=host, port=port, data_dir=data_dir, insecure=insecure))


@cli.command()
def worker(data_dir: DataDir = None, while_stdin: WhileStdin = False) -> None:
    """Work on jobs, one at a time."""
    from app.cli import servers

    servers.run_worker(read_settings(data_dir=data_dir), while_stdin=while_stdin)


@cli.command()
def migrate(data_dir: DataDir = None) -> None:
    """Bring the database's schema to the newest version."""
    from app.cli import servers

    settings = read_settings(data_dir=data_dir)
    servers.migrate(settings)
    typer.echo("the database's schema is at the newest version")


@cli.command()
def train(
    *,
    file: ExistingFile,
    target: Target = None,
    model: Annotated[str | None, typer.Option(help="Name to publish under.", show_default="the file's stem")] = None,
    method: Annotated[str | None, typer.Option(help="How basis vectors are chosen.", show_default="batch")] = None,
    basis_size: Annotated[
        str | None, typer.Option(help="How many basis vectors: a number, or auto.", show_default="auto")
    ] = None,
    effort: Annotated[
        str | None,
        typer.Option(help="Models that are compared: quick, normal or best.", show_default="normal"),
    ] = None,
    kernel: Annotated[
        str | None,
        typer.Option(help="Kernel: auto, gaussian, matern52, matern32 or matern12.", show_default="auto"),
    ] = None,
    mean_rows: Annotated[
        str | None,
        typer.Option(help="Rows that the mean rests on: basis, all, auto or a number.", show_default="auto"),
    ] = None,
    missing: Annotated[
        str | None,
        typer.Option(
            help="Missing cells: error, drop (the rows), or impute (integrate over what they may be).",
            show_default="error",
        ),
    ] = None,
    groups: Annotated[
        str | None,
        typer.Option(help="Column of what rows belong to, if new rows will belong to others.", show_default="none"),
    ] = None,
    order: Annotated[
        str | None,
        typer.Option(help="Column of dates or numbers, if new rows will be later ones.", show_default="none"),
    ] = None,
    decimal: Annotated[
        str | None, typer.Option(help="Decimal mark of numbers in text: , or .", show_default="as the columns show")
    ] = None,
    thousands: Annotated[
        str | None, typer.Option(help="What groups their digits by three; empty: nothing.", show_default="as above")
    ] = None,
    sheet: Annotated[
        str | None, typer.Option(help="Sheet of a workbook: its name or number.", show_default="the first")
    ] = None,
    spec: Spec = "{}",
    wait: Annotated[bool, typer.Option(help="Show the progress until the job has ended.")] = True,
    local: Local = False,
    url: Url = DEFAULT_URL,
    key: Key = None,
    data_dir: DataDir = None,
) -> None:
    """Train a model on a table."""
    fields = json_object(spec)
    size, rows = (
        int(text) if text is not None and re.fullmatch("-?[0-9]+", text) else text for text in (basis_size, mean_rows)
    )
    given = {"target": target, "model": model, "method": method, "basis_size": size, "missing": missing}
    given |= {"effort": effort, "kernel": kernel, "mean_rows": rows}
    given |= {"groups": groups, "order": order, "decimal": decimal, "thousands": thousands, "sheet": sheet}
    fields |= {name: value for name, value in given.items() if value is not None}
    if local and not wait:
        raise typer.BadParameter("--local has nobody to go on with the job: leave out --no-wait")
    console = Console()
    with _client(url, key, local=local, data_dir=data_dir, workers=1) as client:
        job = client.train(file, fields)
        if not wait:
            console.print(
                f"{job['id']} is {job['state']}: see `pursuit jobs {job['id']}`", highlight=False, soft_wrap=True
            )
            return
        try:
            job = watch(client, job["id"], console)
        except KeyboardInterrupt:
            if not local:
                console.print(f"the server goes on: `pursuit jobs {job['id']}`", highlight=False, soft_wrap=True)
            raise
        if job["state"] != "succeeded":
            raise display.job_error(job)
        display.report(console, job)


@cli.command()
def predict(
    *,
    model: Annotated[str, typer.Argument(help="name, name@3 or name@alias")],
    table: Annotated[str, typer.Argument(metavar="FILE", help="Table of any format, or the id of a dataset.")],
    interval: Annotated[
        list[str] | None,
        typer.Option(
            metavar="LEVEL[,LEVEL..]", help="Coverage of lower and upper; may be repeated.", show_default="0.95"
        ),
    ] = None,
    quantile: Annotated[
        list[str] | None, typer.Option(metavar="P[,P..]", help="Probabilities of quantiles to add; may be repeated.")
    ] = None,
    include: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME[,NAME..]", help="More columns: latent_std, median, support, imputed; may be repeated."
        ),
    ] = None,
    keep: Annotated[
        str | None,
        typer.Option(help="Columns of the table to keep: none, others (as an id), or all.", show_default="others"),
    ] = None,
    on_error: Annotated[
        str | None, typer.Option(help="Rows that cannot be predicted: refuse, or null.", show_default="refuse")
    ] = None,
    form: Annotated[
        str | None,
        typer.Option(
            "--format", help="csv, parquet, arrow, npy or json.", show_default="by the name of the output, else csv"
        ),
    ] = None,
    output: Annotated[Path | None, typer.Option(help="Write here.", show_default="standard output")] = None,
    local: Local = False,
    url: Url = DEFAULT_URL,
    key: Key = None,
    data_dir: DataDir = None,
) -> None:
    """Predict the rows of a table: mean, standard deviation, intervals and quantiles. Those of a dataset by a job, as
    Parquet."""
    options: Json = {
        "interval": numbers(interval, "--interval"),
        "quantiles": numbers(quantile, "--quantile"),
        "include": split_values(include, "--include"),
        "on_error": on_error,
        "keep": keep,
    }
    is_dataset = re.fullmatch("ds_[0-9a-f]{32}", table) is not None
    accept = media_type(form, output, is_dataset=is_dataset)
    body = b"" if is_dataset else file_content(existing_file(table))
    with _client(url, key, local=local, data_dir=data_dir, workers=int(is_dataset)) as client:
        if is_dataset:
            console = Console(stderr=True)
            job = watch(client, client.predict_dataset(model, table, options)["id"], console)
            if job["state"] != "succeeded":
                raise display.job_error(job)
            warnings = [warning["message"] for warning in job["result"]["warnings"]]
            content = client.predictions(job["id"])
        else:
            answer = client.predict(model, body, accept=accept, **options)
            warnings, content = (
                [answer.headers[name] for name in ("x-warnings",) if name in answer.headers],
                answer.content,
            )
    for warning in warnings:
        typer.echo(f"note: {warning}", err=True)
    write_content(output, content)


@cli.command()
def models(
    name: Annotated[
        str | None, typer.Argument(help="One model, with its versions; or name@3 or name@alias, one of these.")
    ] = None,
    as_json: AsJson = False,
    local: Local = False,
    url: Url = DEFAULT_URL,
    key: Key = None,
    data_dir: DataDir = None,
) -> None:
    """List the models, or the versions of one, or tell all about a version."""
    with _client(url, key, local=local, data_dir=data_dir, workers=0) as client:
        show: Callable[[Console, Json], None]
        if name is None:
            answer, show = client.models(), display.models
        elif "@" in name:
            answer, show = client.version(name), display.version
        else:
            answer, show = client.model(name), display.versions
    if as_json:
        _print_json(answer)
    else:
        show(Console(), answer)


@cli.command(name="import")
def import_(
    name: Annotated[str, typer.Argument(help="Model that gets the version; it may be new.")],
    file: ExistingFile,
    local: Local = False,
    url: Url = DEFAULT_URL,
    key: Key = None,
    data_dir: DataDir = None,
) -> None:
    """Publish an artefact, a safetensors file, as the next version of a model."""
    with _client(url, key, local=local, data_dir=data_dir, workers=1) as client:
        version = client.import_version(name, file)
    typer.echo(f"{version['model']}@{version['version']} is published, sha256 {version['sha256']}")


@cli.command()
def jobs(
    *,
    job_id: Annotated[str | None, typer.Argument(help="One job, followed until it has ended.")] = None,
    state: Annotated[str | None, typer.Option(help="Only jobs in this state.")] = None,
    model: Annotated[str | None, typer.Option(help="Only jobs for this model.")] = None,
    cancel: Annotated[bool, typer.Option("--cancel", help="End the job.")] = False,
    as_json: AsJson = False,
    local: Local = False,
    url: Url = DEFAULT_URL,
    key: Key = None,
    data_dir: DataDir = None,
) -> None:
    """List the jobs, follow one, or cancel one."""
    if cancel and job_id is None:
        raise typer.BadParameter("--cancel needs the id of a job")
    console = Console()
    with _client(url, key, local=local, data_dir=data_dir, workers=0) as client:
        if job_id is None:
            answer = client.jobs(state=state, model=model)
            if not as_json:
                display.jobs(console, answer)
        elif cancel:
            answer = client.cancel(job_id)
            if not as_json:
                answer = client.wait_for_job(answer)
                display.cancelled(console, answer)
        else:
            answer = client.job(job_id) if as_json or local else watch(client, job_id, console)
            if not as_json and answer["state"] in {"failed", "cancelled"}:
                raise display.job_error(answer)
            if not as_json and answer["state"] == "succeeded":
                display.report(console, answer)
    if as_json:
        _print_json(answer)


@cli.command()
def demo(
    *,
    file: Annotated[
        Path | None,
        typer.Argument(exists=True, dir_okay=False, readable=True, show_default="6,000 flights out of New York"),
    ] = None,
    target: Target = None,
    spec: Spec = "{}",
    picture: Annotated[Path, typer.Option(help="Where to save the picture, an SVG.")] = Path("pursuit-demo.svg"),
    keep: Annotated[bool, typer.Option("--keep", help="Leave the server running.")] = False,
    port: Annotated[int, typer.Option(help="Port of the server; 0 takes a free one.")] = 0,
) -> None:
    """Train on a real table, predict rows held back, show how good it was."""
    fields = json_object(spec)
    from app.demo.run import run

    try:
        run(Console(), file=file, target=target, spec=fields, picture=picture, keep=keep, port=port)
    except ClientError as error:
        raise display.fail(error, hint=False) from None


@contextmanager
def _client(url: str, key: str | None, *, local: bool, data_dir: Path | None, workers: int) -> Iterator[Client]:
    """Open a client of the server at `url`, or of a private one over the data directory; print what goes wrong.

    Without workers nothing is trained, so there have to be data in the directory.
    """
    try:
        if local:
            settings = read_settings(data_dir=data_dir)
            embedded = Path(settings.database.removeprefix("sqlite:///"))
            if not workers and settings.database_url is None and not embedded.exists():
                raise ClientError(
                    f"there is no data in {settings.data_dir} (no {embedded.name}): name the directory with --data-dir "
                    "or PURSUIT_DATA_DIR, or make it by `pursuit train FILE --local`"
                )
            with local_service(settings.data_dir, workers=workers) as client:
                yield client
        else:
            with Client(url, key=key) as client:
                yield client
    except ClientError as error:
        raise display.fail(error, hint=not local) from None


def _print_json(answer: Json) -> None:
    typer.echo(json.dumps(answer, indent=2, ensure_ascii=False))
