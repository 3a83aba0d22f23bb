"""Commands that are told by the tests when to be patient."""

import pytest

from app.cli.connection import PATIENCE_VARIABLE


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that does not answer is not asked again."""
    monkeypatch.setenv(PATIENCE_VARIABLE, "0")
