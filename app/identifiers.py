"""The rules of names and keys, each once: models, aliases, references to versions, jobs, datasets, idempotency keys,
ids of API keys and of kept predictions.

Lengths are those of the columns in `app.database.tables`; a longer text would be refused by PostgreSQL alone.
"""

import re
import secrets
import time
from uuid import uuid4

from app.errors import InvalidRequestError

NAME_LENGTH = 64
"""Most characters of the name of a model or an alias."""
NAME_PATTERN = rf"[A-Za-z0-9][A-Za-z0-9._-]{{0,{NAME_LENGTH - 1}}}"
"""Names of models and aliases, as a regular expression for the whole of one."""
ID_LENGTH = 36
"""Most characters of the id of a job or a dataset."""
PREDICTION_ID_LENGTH = 37
"""Characters of the id of a kept prediction."""
KEY_LENGTH = 255
"""Most characters of an idempotency key."""
API_KEY_ID_LENGTH = 16
"""Characters of the id of an API key, which is no secret."""
LARGEST_VERSION = 2**31 - 1
"""The largest version of a model, a 32-bit integer in the database."""

_NAME = re.compile(NAME_PATTERN)
_JOB_ID = re.compile(r"job_[0-9a-f]{32}")
_DATASET_ID = re.compile(r"ds_[0-9a-f]{32}")
_PREDICTION_ID = re.compile(r"pred_[0-9a-f]{32}")
_API_KEY_ID = re.compile(rf"[0-9a-f]{{{API_KEY_ID_LENGTH}}}")


def is_name(text: str) -> bool:
    """True if models and aliases may have this name."""
    return _NAME.fullmatch(text) is not None


def check_name(name: str, kind: str = "model") -> str:
    """Return the name if models and aliases may have it; InvalidRequestError, which calls it `kind`."""
    if not is_name(name):
        raise InvalidRequestError(
            f"{kind}: expected 1 to {NAME_LENGTH} letters, digits, '.', '_' or '-' beginning with a letter or digit, "
            f"got {name[:80]!r}"
        )
    return name


def check_alias(alias: str) -> str:
    """Return the alias if there may be one of that name; InvalidRequestError, also for digits alone."""
    check_name(alias, "alias")
    if alias.isdigit():
        raise InvalidRequestError(f"alias: {alias!r} would read as a version number")
    return alias


def parse_version(text: str) -> int | None:
    """Return the number that a version is asked for by; None for text that is none, or too large for any."""
    if not (text.isascii() and text.isdigit()):
        return None
    digits = text.lstrip("0") or "0"
    if len(digits) > len(str(LARGEST_VERSION)):  # before `int`, which refuses thousands of digits by a ValueError
        return None
    return number if (number := int(digits)) <= LARGEST_VERSION else None


def new_job_id() -> str:
    """Return `job_` and 32 hexadecimal digits: microseconds since 1970, then 72 random bits; so ids sort by age."""
    return f"job_{time.time_ns() // 1000:014x}{secrets.token_hex(9)}"


def oldest_job_id(seconds: float) -> str:
    """Return what ids of jobs sort behind that are younger than so many seconds, and before it all older ones."""
    return f"job_{max(time.time_ns() // 1000 - int(seconds * 1e6), 0):014x}"


def is_job_id(text: str) -> bool:
    """True if it has the form of a job's id."""
    return _JOB_ID.fullmatch(text) is not None


def new_prediction_id() -> str:
    """Return `pred_` and 32 hexadecimal digits, which sort by age as those of jobs do."""
    return f"pred_{time.time_ns() // 1000:014x}{secrets.token_hex(9)}"


def oldest_prediction_id(seconds: float) -> str:
    """Return what ids of kept predictions sort behind that are younger than so many seconds, and before it all older
    ones."""
    return f"pred_{max(time.time_ns() // 1000 - int(seconds * 1e6), 0):014x}"


def is_prediction_id(text: str) -> bool:
    """True if it has the form of a kept prediction's id."""
    return _PREDICTION_ID.fullmatch(text) is not None


def new_dataset_id() -> str:
    """Return `ds_` and 32 hexadecimal digits."""
    return f"ds_{uuid4().hex}"


def is_dataset_id(text: str) -> bool:
    """True if it has the form of a dataset's id."""
    return _DATASET_ID.fullmatch(text) is not None


def new_api_key_id() -> str:
    """Return 16 hexadecimal digits."""
    return secrets.token_hex(API_KEY_ID_LENGTH // 2)


def is_api_key_id(text: str) -> bool:
    """True if it has the form of an API key's id."""
    return _API_KEY_ID.fullmatch(text) is not None


def check_api_key_id(text: str) -> str:
    """Return the id of an API key; InvalidRequestError for what is none."""
    if not is_api_key_id(text):
        raise InvalidRequestError(f"key: expected the id of an API key, {API_KEY_ID_LENGTH} digits, got {text[:80]!r}")
    return text


def check_idempotency_key(key: str | None) -> str | None:
    """Return the key if it can be kept, or None; InvalidRequestError."""
    if key is not None and not (1 <= len(key) <= KEY_LENGTH and key.isprintable()):
        raise InvalidRequestError(f"Idempotency-Key: expected 1 to {KEY_LENGTH} printable characters, got {key[:80]!r}")
    return key
