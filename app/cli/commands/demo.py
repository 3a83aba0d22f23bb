"""`pursuit demo`: everything at once, on a real table."""

from pathlib import Path
from typing import Annotated

import typer

from app.cli import display
from app.cli.arguments import json_object
from app.cli.client import ClientError
from app.cli.commands.train import MissingOption
from app.cli.options import AsJson, Spec, Target, existing_file
from app.cli.output import console, print_json


def demo(
    *,
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="FILE",
            callback=existing_file,
            help="A CSV table.",
            show_default="6,000 flights out of New York",
        ),
    ] = None,
    target: Target = None,
    missing: MissingOption = None,
    spec: Spec = "{}",
    picture: Annotated[Path, typer.Option(metavar="FILE", help="Where to save the picture, an SVG.")] = Path(
        "pursuit-demo.svg"
    ),
    keep: Annotated[bool, typer.Option("--keep", help="Leave the server running.")] = False,
    port: Annotated[int, typer.Option(help="Port of the server; 0 takes a free one.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Train on a real table, predict rows held back, show how good it was."""
    fields = json_object(spec) | ({} if missing is None else {"missing": missing})
    from app.demo.run import run

    try:
        scores = run(console(), file=file, target=target, spec=fields, picture=picture, keep=keep, port=port)
    except ClientError as error:
        raise display.fail(error, hint=False) from None
    if as_json:
        from dataclasses import asdict

        print_json({**asdict(scores), "picture": str(picture.resolve())})
