"""Addresses of a server and of what it has, and the key that is sent there."""

import re
from urllib.parse import quote, urlsplit

from app.cli.client_errors import ClientError

KEY_VARIABLE = "PURSUIT_API_KEY"
"""The environment variable with the API key."""


def model_path(name: str) -> str:
    """Return the path of a model. ClientError for a name with a slash, which would be another path."""
    if "/" in name:
        raise ClientError(
            f"model: expected letters, digits, '.', '_' or '-' beginning with a letter or digit, got {name!r}"
        )
    return f"/models/{quote(name, safe='')}"


def is_dataset(word: str) -> bool:
    """Return whether a word is the id of a dataset, and not the name of a file."""
    return re.fullmatch("ds_[0-9a-f]{32}", word) is not None


def authorization(key: str | None) -> dict[str, str]:
    """Headers that send a key; ClientError for one that no header can hold, without showing it."""
    if not key:
        return {}
    if not (key.isascii() and key.isprintable() and " " not in key):
        raise ClientError(f"the API key ({KEY_VARIABLE} or --key) has letters that no key has")
    return {"authorization": f"Bearer {key}"}


def server_url(text: str) -> str:
    """Normalize the URL of a server; http:// may be left out. Raises ClientError."""
    url = text.strip() if "://" in text else f"http://{text.strip()}"
    try:
        parts = urlsplit(url)
        known = parts.scheme in {"http", "https"} and parts.hostname and (parts.port is None or parts.port > 0)
    except ValueError:  # a port that is none, a bracket left open
        known = False
    if not known or parts.query or parts.fragment or any(map(str.isspace, url)):
        raise ClientError(f"{text!r} is not the URL of a server; expected one like http://127.0.0.1:8000")
    return url.rstrip("/").removesuffix("/docs")  # as a browser shows it
