"""API keys against a real server: who is let in, to what, for which models; what is refused says why."""

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.routes.http.access import ACCESS, PUBLIC
from app.services.keys.caller import ANYBODY
from app.services.keys.key_ring import REVOKED_SECONDS
from app.services.keys.keys import Keys
from app.storage.api_keys import KeyLimits
from tests.app.routes.keys import create, id_of
from tests.app.routes.problems import assert_problem
from tests.app.routes.service import QUICK, Service, numbers, running
from tests.postgres import MISSING, postgres, programs
from tests.processes import wait_until

ROW = {"model": "numbers", "rows": [[0.1, 0.2]]}
TENSORS = {"inputs": [{"name": "rows", "shape": [1, 2], "datatype": "FP64", "data": [0.1, 0.2]}]}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Service, dict[str, str]]]:
    """A service with two models, and the headers of a key for everything."""
    with running(tmp_path_factory.mktemp("keys")) as service:
        for model in ("numbers", "others"):
            assert service.train(numbers(), model=model, **QUICK)["state"] == "succeeded"
        headers = create(service, "predict", "train", "admin")
        wait_until(lambda: service.client.get("/models").status_code == 401)
        yield service, headers


Guarded = tuple[Service, dict[str, str]]


def test_without_any_key_everything_is_answered(empty: Service) -> None:
    assert empty.client.get("/models").status_code == 200
    assert empty.client.get("/models", headers={"Authorization": "Bearer of tidings"}).status_code == 200


@pytest.mark.slow
def test_once_there_is_a_key_every_route_wants_one(guarded: Guarded) -> None:
    service, _ = guarded
    for path, scopes in ACCESS.items():
        for method, scope in scopes.items():
            answer = service.client.request(method, re.sub(r"\{.*?\}", "x", path))
            if scope is PUBLIC:
                assert answer.status_code not in {401, 403}, path
                continue
            assert answer.status_code == 401, f"{method} {path}"
            assert answer.headers["www-authenticate"] == 'Bearer realm="pursuit"'
            assert answer.headers["x-request-id"]
            if path.startswith("/v2"):
                assert list(answer.json()) == ["error"]
            else:
                assert_problem(answer, 401, "API key")


@pytest.mark.parametrize(
    "sent",
    [
        "Bearer",
        "Bearer x",
        "Basic YTpi",
        "Bearer pk_0123456789abcdef_" + "0" * 64,
        "bearer pk_" + "\N{LATIN SMALL LETTER E WITH ACUTE}",
    ],
)
def test_what_is_no_key_is_refused(guarded: Guarded, sent: str) -> None:
    service, _ = guarded
    answer = service.client.get("/models", headers=[(b"authorization", sent.encode("latin-1"))])
    assert_problem(answer, 401, "API key")
    assert 'error="invalid_token"' in answer.headers["www-authenticate"]


def test_a_secret_with_one_digit_changed_is_refused(guarded: Guarded) -> None:
    service, headers = guarded
    token = headers["Authorization"]
    for place in (-1, -64):
        changed = token[:place] + ("0" if token[place] != "0" else "1") + (token[place + 1 :] if place != -1 else "")
        assert service.client.get("/models", headers={"Authorization": changed}).status_code == 401
    assert (
        service.client.get("/models", headers={"Authorization": token.replace("Bearer", "bearer")}).status_code == 200
    )


OPENS = {
    "predict": {"predict"},
    "train": {"train", "predict"},
    "monitor": {"monitor"},
    "admin": {"predict", "train", "monitor", "admin"},
}


def test_each_scope_opens_its_routes_and_no_others(guarded: Guarded) -> None:
    service, _ = guarded
    for held, opens in OPENS.items():
        headers = create(service, held)
        for path, scopes in ACCESS.items():
            for method, wanted in scopes.items():
                if wanted is PUBLIC:
                    continue
                answer = service.client.request(method, re.sub(r"\{.*?\}", "x", path), headers=headers)
                if wanted in opens:
                    assert answer.status_code not in {401, 403}, f"{method} {path}: {answer.text}"
                    continue
                assert answer.status_code == 403, f"{method} {path}"
                assert f'scope="{wanted}"' in answer.headers["www-authenticate"]
                assert f"`{wanted}`" in answer.text


def test_addresses_that_there_are_not(guarded: Guarded) -> None:
    service, headers = guarded
    predicts = create(service, "predict")
    assert service.client.get("/nowhere").status_code == 401, "nobody is told what there is"
    for sent in (headers, predicts):
        assert_problem(service.client.get("/nowhere", headers=sent), 404, "nothing at this address")


def test_a_key_for_some_models(guarded: Guarded) -> None:
    service, everything = guarded
    only = create(service, "predict", "train", "admin", models=["numbers"])
    client = service.client
    assert client.post("/predict", json=ROW, headers=only).status_code == 200
    assert client.post("/v2/models/numbers/infer", json=TENSORS, headers=only).status_code == 200
    assert [model["name"] for model in client.get("/models", headers=only).json()["models"]] == ["numbers"]
    assert [model["name"] for model in client.get("/models", headers=everything).json()["models"]] == [
        "numbers",
        "others",
    ]
    jobs = client.get("/jobs", headers=everything).json()["jobs"]
    assert {job["model"] for job in client.get("/jobs", headers=only).json()["jobs"]} == {"numbers"}
    (other,) = [job["id"] for job in jobs if job["model"] == "others"]
    table = {"columns": {"x": [0.0, 1.0], "y": [0.0, 1.0]}}
    refused: list[httpx.Response] = [
        client.post("/predict", json=ROW | {"model": "others@1"}, headers=only),
        client.post("/predict?model=others", content="a,b\n1,2\n", headers=only | {"content-type": "text/csv"}),
        client.post("/predict", json=ROW | {"model": "nowhere"}, headers=only),
        client.post("/v2/models/others/infer", json=TENSORS, headers=only),
        client.get("/models/others", headers=only),
        client.get("/models/others/versions/1/artefact", headers=only),
        client.put("/models/others/aliases/a", json={"version": 1}, headers=only),
        client.delete("/models/others/versions/1", headers=only),
        client.get("/jobs?model=others", headers=only),
        client.get(f"/jobs/{other}", headers=only),
        client.get(f"/jobs/{other}/events", headers=only),
        client.delete(f"/jobs/{other}", headers=only),
        client.post("/train", json=table | {"spec": {"model": "others"}}, headers=only),
        client.post("/train", files={"file": ("others.csv", numbers())}, headers=only),
        client.post("/keys", json={"scopes": ["predict"]}, headers=only),
        client.post("/keys", json={"scopes": ["predict"], "models": ["numbers"]}, headers=only),
        client.get("/keys", headers=only),
        client.delete(f"/keys/{id_of(everything)}", headers=only),
        client.get("/audit", headers=only),
        client.get("/audit/usage", headers=only),
    ]
    for answer in refused:
        assert answer.status_code == 403, f"{answer.request.method} {answer.request.url}: {answer.text}"
        assert "numbers" in answer.text


def test_keys_are_made_listed_and_revoked_over_http(guarded: Guarded) -> None:
    service, headers = guarded
    body = {"scopes": ["predict"], "name": "dashboard", "models": ["numbers"], "requests_per_minute": 7}
    made = service.client.post("/keys", json=body | {"expires_at": "2100-01-01T00:00:00Z"}, headers=headers)
    assert made.status_code == 201, made.text
    assert made.headers["cache-control"] == "no-store"
    token, key = made.json()["token"], made.json()["id"]
    assert re.fullmatch(rf"pk_{key}_[0-9a-f]{{64}}", token)
    listed: list[dict[str, Any]] = service.client.get("/keys", headers=headers).json()["keys"]
    assert listed[0]["id"] == key
    assert token.rpartition("_")[2] not in str(listed)
    assert listed[0]["limits"]["requests_per_minute"] == 7
    assert listed[0]["expires_at"].startswith("2099-12-31T23:59:59") or listed[0]["expires_at"].startswith("2100-01-01")
    mine = {"Authorization": f"Bearer {token}"}
    assert service.client.post("/predict", json=ROW, headers=mine).status_code == 200
    assert service.client.delete(f"/keys/{key}", headers=headers).json()["revoked_at"] is not None
    assert service.client.post("/predict", json=ROW, headers=mine).status_code == 401
    assert service.client.delete("/keys/0123456789abcdef", headers=headers).status_code == 404
    pages = [service.client.get("/keys", params={"limit": 1}, headers=headers).json()]
    while pages[-1]["next_cursor"]:
        query = {"limit": 1, "cursor": pages[-1]["next_cursor"]}
        pages.append(service.client.get("/keys", params=query, headers=headers).json())
    assert [page["keys"][0]["id"] for page in pages] == [
        key["id"] for key in service.client.get("/keys", headers=headers).json()["keys"]
    ]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"scopes": []}, "scopes"),
        ({"scopes": ["root"]}, "'root'"),
        ({"scopes": ["predict"], "models": []}, "models"),
        ({"scopes": ["predict"], "models": ["a b"]}, "models"),
        ({"scopes": ["predict"], "name": "x" * 65}, "name"),
        ({"scopes": ["predict"], "expires_at": "2000-01-01T00:00:00Z"}, "expires"),
        ({"scopes": ["predict"], "expires_at": "2100-01-01T00:00:00"}, "zone"),
        ({"scopes": ["predict"], "requests_per_minute": 0}, "requests_per_minute"),
        ({"scopes": ["predict"], "stored_bytes": 1 << 63}, "stored_bytes"),
        ({"scopes": ["predict"], "colour": "red"}, "colour"),
    ],
)
def test_keys_that_cannot_be(guarded: Guarded, body: dict[str, Any], said: str) -> None:
    service, headers = guarded
    assert_problem(service.client.post("/keys", json=body, headers=headers), 422, said)


def test_a_revoked_key_is_refused_within_five_seconds_by_other_processes(guarded: Guarded) -> None:
    service, _ = guarded
    headers = create(service, "predict")
    assert service.client.post("/predict", json=ROW, headers=headers).status_code == 200, "a new one is known at once"
    Keys(service.database).revoke(id_of(headers), ANYBODY)
    revoked = time.monotonic()
    wait_until(lambda: service.client.post("/predict", json=ROW, headers=headers).status_code == 401, 10.0)
    assert time.monotonic() - revoked < 5.0


def test_a_key_that_expires(guarded: Guarded) -> None:
    service, _ = guarded
    headers = create(service, "predict", seconds=1.5)
    assert service.client.post("/predict", json=ROW, headers=headers).status_code == 200
    wait_until(lambda: service.client.post("/predict", json=ROW, headers=headers).status_code == 401, 5.0)


@pytest.mark.slow
def test_the_end_of_the_last_key_opens_nothing(tmp_path: Path) -> None:
    with running(tmp_path) as service:
        headers = create(service, "predict", seconds=0.5)
        wait_until(lambda: service.client.get("/models").status_code == 401)
        wait_until(lambda: service.client.get("/models", headers=headers).status_code == 401, 5.0)
        time.sleep(2.1)
        assert service.client.get("/models").status_code == 401
    with running(tmp_path, insecure=True) as service:
        assert service.client.get("/models").status_code == 200, "unless the operator says so"
        create(service, "predict")
        wait_until(lambda: service.client.get("/models").status_code == 401)


def test_others_are_not_let_in_before_there_is_a_key(tmp_path: Path) -> None:
    with running(tmp_path, host="0.0.0.0") as service:
        assert_problem(service.client.get("/models"), 401, "pursuit keys create")
        assert service.client.get("/health/ready").status_code == 200
        assert service.client.get("/models", headers=create(service, "predict")).status_code == 200
    with running(tmp_path / "other", host="0.0.0.0", insecure=True) as service:
        assert service.client.get("/models").status_code == 200


@pytest.mark.e2e
@pytest.mark.skipif(programs() is None, reason=MISSING)
def test_keys_hold_while_the_database_is_away(tmp_path: Path) -> None:
    """Loaded models go on predicting, for whoever has a key and for nobody else; what needs the database is 503."""
    with postgres() as server, running(tmp_path, database_url=server.url) as service:
        assert service.train(numbers(), model="numbers", **QUICK)["state"] == "succeeded"
        limits = KeyLimits(requests_per_minute=1_000_000)
        headers = create(service, "predict", limits=limits)
        assert service.client.post("/predict", json=ROW, headers=headers).status_code == 200
        wait_until(lambda: service.client.get("/models").status_code == 401)
        server.kill()
        until = time.monotonic() + 1.5 * REVOKED_SECONDS
        slowest = 0.0
        while time.monotonic() < until:
            began = time.monotonic()
            assert service.client.post("/predict", json=ROW, headers=headers).status_code == 200
            slowest = max(slowest, time.monotonic() - began)
            assert service.client.post("/predict", json=ROW).status_code == 401
        assert slowest < 4.0
        assert service.client.get("/models", headers=headers).status_code == 503
        server.start()
        wait_until(lambda: service.client.get("/models", headers=headers).status_code == 200)


def test_a_stream_of_events_ends_with_its_key(guarded: Guarded, monkeypatch: pytest.MonkeyPatch) -> None:
    service, everything = guarded
    monkeypatch.setattr("app.routes.jobs._QUIET_SECONDS", 0.2)
    headers = create(service, "train")
    job = service.post_file(numbers(), QUICK, headers=everything).headers["location"]
    with service.client.stream("GET", f"{job}/events", headers=headers) as stream:
        lines = stream.iter_lines()
        assert any(line.startswith("data:") for line in lines)
        Keys(service.database).revoke(id_of(headers), ANYBODY)
        assert all(not line or line.startswith((":", "id:")) for line in lines), "and then it is over"
    service.client.delete(job, headers=everything)


def test_methods_head_and_options(guarded: Guarded) -> None:
    service, headers = guarded
    client = service.client
    for path in (
        "/models",
        "/models/numbers",
        "/jobs",
        "/openapi.json",
        "/docs",
        "/health/live",
        "/v2",
        "/v2/models/numbers",
    ):
        full, head = client.get(path, headers=headers), client.head(path, headers=headers)
        assert (head.status_code, head.content) == (200, b"")
        assert head.headers["content-type"] == full.headers["content-type"]
        assert head.headers["content-length"] == full.headers["content-length"]
    assert client.head("/models").status_code == 401
    assert client.head("/models/none", headers=headers).status_code == 404
    job = client.get("/jobs", headers=headers).json()["jobs"][0]["id"]
    assert client.head(f"/jobs/{job}/events", headers=headers).headers["content-type"].startswith("text/event-stream")
    for path, methods in (
        ("/models/numbers/aliases/a", "DELETE, OPTIONS, PUT"),
        ("/datasets", "GET, HEAD, OPTIONS, POST"),
        ("/predict", "OPTIONS, POST"),
        ("/v2/models/numbers/infer", "OPTIONS, POST"),
    ):
        asked = client.options(path)
        assert (asked.status_code, asked.headers["allow"], asked.content) == (204, methods, b"")
        other = client.patch(path, headers=headers)
        assert (other.status_code, other.headers["allow"]) == (405, methods)
        assert "method not allowed" in other.text


def test_an_unfinished_stream_is_not_waited_for_by_head(guarded: Guarded) -> None:
    service, headers = guarded
    job = service.post_file(numbers(), QUICK, headers=headers).headers["location"]
    began = time.monotonic()
    assert service.client.head(f"{job}/events", headers=headers).status_code == 200
    assert service.client.head("/models", headers=headers).status_code == 200, "the connection is free again"
    assert time.monotonic() - began < 5.0
    service.client.delete(job, headers=headers)


def test_pages_of_other_origins(tmp_path: Path) -> None:
    asked = {"Origin": "https://example.com", "Access-Control-Request-Method": "POST"}
    asked |= {"Access-Control-Request-Headers": "authorization,content-type"}
    with running(tmp_path) as service:
        assert "access-control-allow-origin" not in service.client.options("/predict", headers=asked).headers
    with running(tmp_path, cors_origins="https://example.com, https://example.org") as service:
        create(service, "predict")
        wait_until(lambda: service.client.get("/models").status_code == 401)
        preflight = service.client.options("/predict", headers=asked)
        assert preflight.status_code == 200, "a browser sends no key with it"
        assert preflight.headers["access-control-allow-origin"] == "https://example.com"
        assert "authorization" in preflight.headers["access-control-allow-headers"].lower()
        refused = service.client.get("/models", headers={"Origin": "https://example.org"})
        assert (refused.status_code, refused.headers["access-control-allow-origin"]) == (401, "https://example.org")
        other = service.client.get("/models", headers={"Origin": "https://example.net"})
        assert "access-control-allow-origin" not in other.headers
