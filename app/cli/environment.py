"""The settings of the servers' commands: the environment, under the command line."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.cli.client_errors import ClientError

if TYPE_CHECKING:
    from app.settings import Settings


class WrongSettingsError(ClientError):
    """A setting is wrong, in the environment or on the command line."""

    exit_code = 2


def read_settings(**given: Any) -> "Settings":
    """Read the settings, those that are given first. Raises ClientError."""
    from pydantic import ValidationError

    from app.settings import Settings

    try:
        from app import posix  # noqa: F401  says where the service runs

        Path.cwd()  # a relative folder begins there
    except ImportError as error:
        raise ClientError(str(error)) from None
    except FileNotFoundError:
        raise ClientError("the current folder does not exist any more: go to another one") from None
    try:
        return Settings(**{name: value for name, value in given.items() if value is not None})
    except ValidationError as error:
        lines = []
        for fault in error.errors():
            field = str(fault["loc"][0])
            name = f"PURSUIT_{field.upper()}" if given.get(field) is None else f"--{field.replace('_', '-')}"
            lines.append(f"{name}: {fault['msg'].removeprefix('Value error, ')}")
        raise WrongSettingsError("; ".join(lines)) from None
