"""Tokens of API keys: `pk_<id>_<secret>`, 16 and 64 hexadecimal digits.

The id, which is no secret, finds the row; the secret is 256 random bits, of which the SHA-256 is kept. A fast hash is
right for it: slow ones (bcrypt, Argon2) make guesses at what people think up expensive, and nobody guesses 256 bits,
while each request would pay for it.
"""

import hashlib
import hmac
import re
import secrets

from app.identifiers import API_KEY_ID_LENGTH

PREFIX = "pk"
SECRET_BYTES = 32

_TOKEN = re.compile(rb"%s_([0-9a-f]{%d})_([0-9a-f]{%d})" % (PREFIX.encode(), API_KEY_ID_LENGTH, 2 * SECRET_BYTES))


def new_secret() -> str:
    """Return 64 hexadecimal digits, from the system's generator."""
    return secrets.token_hex(SECRET_BYTES)


def token(key_id: str, secret: str) -> str:
    """Return the token that a client sends."""
    return f"{PREFIX}_{key_id}_{secret}"


def digest(secret: str | bytes) -> str:
    """Return what is kept of a secret."""
    return hashlib.sha256(secret.encode() if isinstance(secret, str) else secret).hexdigest()


def parse(text: bytes) -> tuple[str, bytes] | None:
    """Return id and secret of a token; None for what is none."""
    found = _TOKEN.fullmatch(text)
    return None if found is None else (found[1].decode(), found[2])


def matches(secret: bytes, kept: str) -> bool:
    """Compare a secret with the kept digest, in a time that does not depend on where they differ."""
    return hmac.compare_digest(digest(secret), kept)
