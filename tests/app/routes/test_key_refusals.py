"""Refusals and what they say of a key: true, and no more than its holder may know."""

import time

import httpx
import pytest

from app.services.keys.caller import ANYBODY
from app.services.keys.keys import Keys
from app.storage.api_keys import KeyLimits
from tests.app.routes.keys import create, id_of
from tests.app.routes.problems import assert_problem
from tests.app.routes.service import QUICK, Service, numbers
from tests.app.routes.test_key_limits import within_a_minute
from tests.processes import wait_until

NONE_LIKE_IT = "there is none like it"


@pytest.fixture
def keyed(empty: Service) -> Service:
    create(empty, "admin")
    wait_until(lambda: empty.client.get("/models").status_code == 401)
    return empty


def refused(service: Service, headers: dict[str, str]) -> str:
    """Ask until the key is refused; return why."""
    wait_until(lambda: service.client.get("/models", headers=headers).status_code == 401, 10.0)
    detail: str = assert_problem(service.client.get("/models", headers=headers), 401, "not valid")["detail"]
    return detail


def other_secret(headers: dict[str, str]) -> dict[str, str]:
    return {"Authorization": headers["Authorization"][:-1] + ("0" if headers["Authorization"][-1] != "0" else "1")}


def test_who_has_its_secret_is_told_how_a_key_ended(keyed: Service) -> None:
    revoked, expiring = create(keyed, "predict"), create(keyed, "predict", seconds=0.5)
    assert keyed.client.get("/models", headers=revoked).status_code == 200
    Keys(keyed.database).revoke(id_of(revoked), ANYBODY)
    assert "it was revoked at 20" in refused(keyed, revoked)
    assert "it expired at 20" in refused(keyed, expiring)
    for headers in (revoked, expiring):
        assert refused(keyed, other_secret(headers)).endswith(NONE_LIKE_IT)
    assert refused(keyed, {"Authorization": f"Bearer pk_{'0' * 16}_{'0' * 64}"}).endswith(NONE_LIKE_IT)


def test_keys_that_have_ended_cost_the_database_nothing(keyed: Service) -> None:
    revoked = create(keyed, "predict")
    Keys(keyed.database).revoke(id_of(revoked), ANYBODY)
    refused(keyed, revoked)
    began = time.monotonic()
    for _ in range(20):
        assert keyed.client.get("/models", headers=revoked).status_code == 401
    assert time.monotonic() - began < 20 * 0.1  # an unknown one waits UNKNOWN_SECONDS for the next look


def test_a_limit_says_what_is_left(keyed: Service) -> None:
    admin = create(keyed, "admin")
    keyed.client.headers.update(admin)
    assert keyed.train(numbers(), model="numbers", **QUICK)["state"] == "succeeded"
    headers = create(keyed, "predict", limits=KeyLimits(rows_per_minute=100))

    def ask(rows: int) -> httpx.Response:
        body = {"model": "numbers", "rows": [[0.1, 0.2]] * rows}
        return keyed.client.post("/predict", json=body, headers=headers)

    within_a_minute(10.0)
    assert ask(60).status_code == 200
    said = assert_problem(ask(50), 429, "100 rows a minute", "of which 40 are left", "the request has 50")
    assert "used up" not in said["detail"]
    assert ask(40).status_code == 200
    assert "are left" not in assert_problem(ask(1), 429, "100 rows a minute; the next minute begins in")["detail"]
