"""Tokens: their form, what is kept of them, how they are compared."""

import hashlib
import inspect
import re

import pytest

from app.identifiers import is_api_key_id, new_api_key_id
from app.services.keys import tokens


def test_a_token_is_an_id_and_256_random_bits() -> None:
    key_id, secret = new_api_key_id(), tokens.new_secret()
    text = tokens.token(key_id, secret)
    assert re.fullmatch("pk_[0-9a-f]{16}_[0-9a-f]{64}", text)
    assert is_api_key_id(key_id)
    assert tokens.parse(text.encode()) == (key_id, secret.encode())
    assert len({tokens.new_secret() for _ in range(1000)}) == 1000


def test_what_is_kept_is_the_sha_256_of_the_secret() -> None:
    secret = tokens.new_secret()
    assert tokens.digest(secret) == hashlib.sha256(secret.encode()).hexdigest()
    assert secret not in tokens.digest(secret)
    assert tokens.matches(secret.encode(), tokens.digest(secret))
    assert not tokens.matches(tokens.new_secret().encode(), tokens.digest(secret))


def test_secrets_are_compared_in_constant_time() -> None:
    assert "hmac.compare_digest(" in inspect.getsource(tokens.matches)


@pytest.mark.parametrize(
    "text",
    ["", "pk_", "pk_x_y", f"pk_{'0' * 16}_{'0' * 63}", f"pk_{'0' * 16}_{'0' * 64}\n", f"PK_{'0' * 16}_{'0' * 64}"],
)
def test_other_texts_are_no_tokens(text: str) -> None:
    assert tokens.parse(text.encode()) is None
