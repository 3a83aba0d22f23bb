"""Rules of which requests are sent again, and when."""

import time
from email.utils import formatdate

import pytest

from app.cli.retry import ATTEMPTS, pause_seconds, retry_after


@pytest.mark.parametrize(
    ("status", "repeatable", "again"),
    [
        (None, True, True),
        (None, False, False),
        (503, False, True),
        (429, False, True),
        (502, True, True),
        (504, False, False),
        (500, True, False),
        (404, True, False),
    ],
)
def test_only_what_can_be_done_again_is(status: int | None, repeatable: bool, again: bool) -> None:
    assert (pause_seconds(0, status=status, asked=None, repeatable=repeatable) is not None) is again


def test_pauses_grow_to_a_limit_and_end() -> None:
    pauses = [pause_seconds(attempt, status=503, asked=None, repeatable=True) for attempt in range(ATTEMPTS)]
    assert pauses[-1] is None
    grown = [pause for pause in pauses if pause is not None]
    assert len(grown) == ATTEMPTS - 1
    assert 0.1 <= grown[0] <= 0.2
    assert 5.0 <= grown[-1] <= 10.0
    assert pause_seconds(3, status=503, asked=7.5, repeatable=True) == 7.5


def test_a_pause_that_is_asked_for_is_a_number_or_a_date() -> None:
    assert retry_after("120") == 120.0
    found = retry_after(formatdate(time.time() + 90, usegmt=True))
    assert found == pytest.approx(90, abs=2)
    assert retry_after("Wed, 21 Oct 2015 07:28:00 GMT") == 0.0
    assert retry_after("soon") is None
    assert retry_after(None) is None
