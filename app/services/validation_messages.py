"""Messages of pydantic in the words of people who send JSON."""

import re

_WORDS = (
    (", unable to parse.*", ""),
    (r"^List should have (at most \d+ items?).*", r"\1"),
    (r"^integer", "a whole number"),
    (r"^(number|list|string|dictionary|boolean)", r"a \1"),
    ("greater than or equal to", "at least"),
    ("less than or equal to", "at most"),
    ("greater than", "more than"),
    ("a dictionary or instance of .*", "an object"),
    ("a dictionary", "an object"),
    ("a string", "a text"),
    ("a boolean", "true or false"),
)
"""Patterns in pydantic's messages and what to write for them."""

_SPELT = {None: "null", True: "true", False: "false"}


def plain_message(message: str) -> str:
    """Return what pydantic expected: "at least 1", "a whole number"."""
    what = message.removeprefix("Input should be ").removeprefix("a valid ")
    for theirs, ours in _WORDS:
        what = re.sub(theirs, ours, what)
    return what


def shortened(value: object) -> str:
    """Return a value as JSON spells it, cut to 60 characters."""
    text = _SPELT[value] if value is None or isinstance(value, bool) else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
