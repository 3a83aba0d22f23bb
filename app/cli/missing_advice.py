"""Refusals of missing cells that nothing was said about, and what the command line has for them."""

from app.cli.client_errors import ClientError

_REFUSAL = 'set "missing" to "drop"'
"""Words of the server where cells are missing and nothing was said about them."""
_MAY_IMPUTE = '"impute"'
"""Word of the same refusal where it is a way out too."""


def is_about_missing(error: ClientError) -> bool:
    """Return whether the server refuses a table for its missing cells."""
    return _REFUSAL in str(error)


def may_impute(error: ClientError) -> bool:
    """Return whether a refusal about missing cells names integrating over them as a way out, and not dropping alone."""
    return _MAY_IMPUTE in str(error).partition(_REFUSAL)[2]


def missing_hint(error: ClientError) -> str:
    """Return the options that such a refusal advises."""
    return "on the command line: --missing drop" + (", or --missing impute" if may_impute(error) else "")
