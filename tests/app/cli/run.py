"""The command in the process of the tests."""

from pathlib import Path

from typer.testing import CliRunner, Result

from app.cli.commands import cli


def pursuit(*words: str | Path, url: str = "http://127.0.0.1:9", columns: int = 120) -> Result:
    """Run `pursuit` with these words."""
    return CliRunner().invoke(cli, [str(word) for word in words], env={"PURSUIT_URL": url, "COLUMNS": str(columns)})
