"""Ids of requests: the client's own, if it is a harmless word, else a new one."""

import random
import re
from collections.abc import Mapping

_ACCEPTABLE = re.compile(rb"[A-Za-z0-9._-]{1,128}")
_chance = random.Random()  # ids need not be secret, and the system's generator costs a call of it


def chosen_request_id(headers: Mapping[bytes, bytes]) -> bytes:
    """Return the id for a request with these headers, by names in small letters."""
    given = headers.get(b"x-request-id", b"")
    return given if _ACCEPTABLE.fullmatch(given) else b"%032x" % _chance.getrandbits(128)
