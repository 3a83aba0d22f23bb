"""`pursuit models`, `alias`, `delete`, `import`, `artefact`: what is published."""

import re
from collections.abc import Callable
from functools import partial
from typing import Annotated

import typer
from rich.console import Console

from app.cli import display
from app.cli.addresses import is_dataset
from app.cli.arguments import is_terminal, open_input, refuse_terminal, write_content
from app.cli.client import Json
from app.cli.connection import connect
from app.cli.options import (
    DEFAULT_URL,
    AsJson,
    DataDir,
    FirstTarget,
    InputFile,
    Key,
    Local,
    Output,
    Reference,
    Url,
    Verbose,
    Yes,
)
from app.cli.output import print_json


def models(
    name: Annotated[
        str | None, typer.Argument(help="One model, with its versions; or name@3 or name@alias, one of these.")
    ] = None,
    target: FirstTarget = None,
    verbose: Verbose = False,
    as_json: AsJson = False,
    local: Local = False,
    url: Url = DEFAULT_URL,
    key: Key = None,
    data_dir: DataDir = None,
) -> None:
    """List the models, or the versions of one, or tell all about a version."""
    if target is not None and "@" not in (name or ""):
        raise typer.BadParameter("it is of a version: name one, as in cars@3", param_hint="--target")
    with connect(url, key, local=local, data_dir=data_dir) as client:
        show: Callable[[Console, Json], None]
        if name is None:
            answer, show = client.models(), display.models
        elif "@" in name:
            answer, show = client.version(name, target), partial(display.version, verbose=verbose)
        else:
            answer, show = client.model(name), display.versions
    if as_json:
        print_json(answer)
    else:
        show(Console(), answer)


def import_(
    name: Annotated[str, typer.Argument(help="Model that gets the version; it may be new.")],
    file: InputFile,
    as_json: AsJson = False,
    local: Local = False,
    url: Url = DEFAULT_URL,
    key: Key = None,
    data_dir: DataDir = None,
) -> None:
    """Publish an artefact, a safetensors file, as the next version of a model."""
    with open_input(file) as source:
        content = source.body.read()
    with connect(url, key, local=local, data_dir=data_dir, workers=1) as client:
        version = client.import_version(name, content)
    if as_json:
        print_json(version)
    else:
        typer.echo(f"{version['model']}@{version['version']} is published, sha256 {version['sha256']}")


def artefact(
    model: Reference,
    output: Output = None,
    form: Annotated[
        str | None,
        typer.Option(
            "--format",
            help="safetensors (default); onnx: a model for ONNX runtimes; numpy: a zip of predict.py and its arrays.",
        ),
    ] = None,
    interval: Annotated[
        float | None, typer.Option(help="Level of `lower` and `upper` of onnx and numpy, 0.95 by default.")
    ] = None,
    target: Annotated[str | None, typer.Option(help="One of several targets, for onnx and numpy.")] = None,
    as_json: AsJson = False,
    local: Local = False,
    url: Url = DEFAULT_URL,
    key: Key = None,
    data_dir: DataDir = None,
) -> None:
    """Download a version as an artefact, a safetensors file, or in another form that predicts without a server; by
    default the version that the plain name means."""
    to_file = output is not None and str(output) != "-"
    if as_json and not to_file:
        raise typer.BadParameter("with --json standard output is for the document: name a file", param_hint="--output")
    refuse_terminal(output)
    with connect(url, key, local=local, data_dir=data_dir) as client:
        name, version = client.resolve(model)
        asked = {"format": form, "interval": interval, "target": target}
        query = {field: given for field, given in asked.items() if given is not None}
        content = client.artefact(name, version, **query)
    write_content(output, content)
    if as_json:
        print_json({"model": name, "version": version, "output": str(output), "size_bytes": len(content)})
    elif to_file:
        typer.echo(f"{name}@{version} is in {output}, {len(content):,} bytes")


def alias(
    model: Annotated[str, typer.Argument(help="Name of the model.")],
    alias: Annotated[str, typer.Argument(help="The alias; `champion` is what the plain name then means.")],
    version: Annotated[
        str | None, typer.Argument(metavar="VERSION", help="Number of the version, or another alias of it.")
    ] = None,
    remove: Annotated[bool, typer.Option("--remove", help="Remove the alias; its version stays.")] = False,
    as_json: AsJson = False,
    local: Local = False,
    url: Url = DEFAULT_URL,
    key: Key = None,
    data_dir: DataDir = None,
) -> None:
    """Point an alias at a version: promote it, or roll back."""
    if remove == (version is not None):
        raise typer.BadParameter("expected the version it is to point at, or --remove", param_hint="VERSION")
    with connect(url, key, local=local, data_dir=data_dir) as client:
        if version is None:
            client.delete("models", model, "aliases", alias)
            found: Json = {"model": model, "alias": alias, "version": None}
        else:
            found = client.put_alias(model, alias, client.resolve(f"{model}@{version}")[1])
    if as_json:
        print_json(found)
    elif version is None:
        typer.echo(f"{model}@{alias} is removed")
    else:
        typer.echo(f"{model}@{alias} is version {found['version']} now")


def delete(
    what: Annotated[
        list[str], typer.Argument(metavar="WHAT..", help="Models (name), versions (name@3) and datasets (ds_..).")
    ],
    yes: Yes = False,
    force: Annotated[
        bool, typer.Option("--force", help="Even what an alias points at, and the alias with it.")
    ] = False,
    as_json: AsJson = False,
    local: Local = False,
    url: Url = DEFAULT_URL,
    key: Key = None,
    data_dir: DataDir = None,
) -> None:
    """Delete models, versions or datasets. It asks first; there is no way back."""
    for word in what:
        _, _, version = word.partition("@")
        if "@" in word and not re.fullmatch("[1-9][0-9]*", version):
            raise typer.BadParameter(
                f"{word!r}: expected the number of a version, as in name@3: an alias may move meanwhile",
                param_hint="WHAT",
            )
    if not yes:
        if as_json or not is_terminal():
            raise typer.BadParameter("there is nobody to ask whether to delete: add --yes", param_hint="--yes")
        typer.confirm(f"Delete {', '.join(map(_named, what))} for good?", abort=True, err=True)
    deleted: list[str] = []
    with connect(url, key, local=local, data_dir=data_dir) as client:
        for word in what:
            name, _, version = word.partition("@")
            if is_dataset(word):
                client.delete("datasets", word)
            elif version:
                client.delete("models", name, "versions", version, force=force)
            else:
                client.delete("models", name, force=force)
            deleted.append(word)
            if not as_json:
                typer.echo(f"{_named(word)} is deleted")
    if as_json:
        print_json({"deleted": deleted})


def _named(word: str) -> str:
    if is_dataset(word):
        return f"dataset {word}"
    return f"version {word}" if "@" in word else f"model {word} with all its versions"
