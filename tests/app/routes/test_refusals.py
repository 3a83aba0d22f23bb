"""Refusals that do not depend on what is asked: limits, encodings, addresses, and spoilt bytes of every kind."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.routes.http.errors import PROBLEM
from tests.app.routes.problems import FORM, assert_problem
from tests.app.routes.service import JSON_BODY, Service, running
from tests.app.tables.files import zstd


def test_json_may_be_packed_and_says_all(service: Service) -> None:
    body = json.dumps({"model": "numbers", "rows": [[1, 2]]}).encode()
    kind = JSON_BODY
    plain = service.client.post("/predict", content=body, headers=kind).json()
    for packed, encoding in ((gzip.compress(body), "gzip"), (zstd(body), "zstd"), (gzip.compress(body), "identity")):
        headers = kind | {"content-encoding": encoding}
        assert service.client.post("/predict", content=packed, headers=headers).json() == plain
    assert_problem(
        service.client.post("/predict", content=body, headers=kind | {"content-encoding": "br"}), 415, "'br'"
    )
    assert_problem(
        service.client.post("/predict", content=body, headers=kind | {"content-encoding": "gzip"}), 400, "is not"
    )
    assert_problem(service.client.post("/predict", content=gzip.compress(body)[:-9], headers=kind), 400, "cut short")
    assert_problem(service.client.post("/predict?interval=0.5", content=body, headers=kind), 422, "in the body")


SURROGATES = [
    ("/train", b'{"columns": {"x": [1, 2, 4], "y": [1, 2, 3]}, "spec": {"target": "\\ud800"}}'),
    ("/train", b'{"columns": {"\\ud800": [1, 2, 4], "y": [1, 2, 3]}, "spec": {"adapt": false}}'),
    ("/train", b'{"rows": [{"x": "\\udfff", "y": 1}, {"x": "b", "y": 3}]}'),
    ("/train", b'{"columns": {"x": [1, 2, 4], "y": [1, 2, 3]}, "spec": {"\\ud800": 1}}'),
    ("/train", b'{"columns": {"x": [1, 2, 4], "y": [1, 2, 3]}, "spec": {"model": "\\u0000"}}'),
    ("/predict", b'{"model": "\\ud800", "rows": [[1, 2]]}'),
    ("/predict", b'{"model": "waves", "rows": [[1, "\\ud800"]]}'),
    ("/predict", b'{"model": "numbers", "rows": [{"a": 1, "b": "\\ud800"}]}'),
]


@pytest.mark.parametrize(("path", "body"), SURROGATES)
def test_half_a_character(service: Service, path: str, body: bytes) -> None:
    answer = service.client.post(path, content=body, headers=JSON_BODY)
    assert answer.status_code in (202, 400, 404, 422), answer.text
    service.work()


def test_bodies_above_the_limits(tmp_path: Path) -> None:
    with running(tmp_path, max_body_bytes=1000, max_upload_bytes=5000) as small:
        body = b'{"model": "numbers", "rows": [' + b"[1, 2]," * 200 + b"[1, 2]]}"
        json_kind = JSON_BODY
        for path in ("/predict", "/train"):
            assert_problem(
                small.client.post(path, content=body, headers=json_kind), 413, "1000", "PURSUIT_MAX_BODY_BYTES"
            )
            answer = small.client.post(path, content=iter([body[:900], body[900:]]), headers=json_kind)
            assert_problem(answer, 413, "1000", "PURSUIT_MAX_BODY_BYTES")
            packed = small.client.post(path, content=gzip.compress(body), headers=json_kind)
            assert_problem(packed, 413, "unpacked", "1000", "PURSUIT_MAX_BODY_BYTES")
        assert_problem(small.post_file("a,y\n" + "1,2\n" * 2000), 413, "5000", "PURSUIT_MAX_UPLOAD_BYTES")
        form = {"file": ("table.csv", "a,y\n" + "1,2\n" * 500)}  # in memory, where a training goes to the disk
        evaluated = small.client.post("/evaluate", files=form, data={"model": "numbers"})
        assert_problem(evaluated, 413, "1000", "PURSUIT_MAX_BODY_BYTES")
        assert list(small.settings.uploads.glob("*/*")) == []


def test_a_table_that_is_larger_than_it_looks(tmp_path: Path) -> None:
    bomb = gzip.compress(b"a,y\n" + b"1,2\n" * 100_000)
    with running(tmp_path, max_table_bytes=100_000) as small:
        assert_problem(small.post_file(bomb), 413, "100,000 bytes after decompression (PURSUIT_MAX_TABLE_BYTES)")
    with running(tmp_path, max_rows=1000) as small:
        assert_problem(small.post_file(bomb), 413, "1,000 rows")


NOWHERE = [
    ("GET", "/nothing", 404, "nothing at this address"),
    ("GET", "/predict", 405, "method not allowed"),
    ("PUT", "/train", 405, "method not allowed"),
    ("GET", "/jobs/job_0", 404, "job_0"),
    ("DELETE", "/jobs/job_0", 404, "job_0"),
    ("GET", "/jobs/job_0/events", 404, "job_0"),
    ("GET", "/jobs?state=lost", 422, "queued"),
    ("GET", "/jobs?limit=0", 422, "limit: expected at least 1; got '0'"),
    ("GET", "/models?limit=x", 422, "limit: expected a whole number; got 'x'"),
    ("GET", "/models/none", 404, "'none'"),
    ("GET", "/models/numbers/versions/9", 404, "no version 9"),
    ("GET", "/models/numbers/versions/x", 422, "version"),
    ("GET", "/models/numbers/versions/9/artefact", 404, "no version 9"),
    ("DELETE", "/models/none", 404, "'none'"),
    ("DELETE", "/models/numbers/versions/9", 404, "no version 9"),
    ("DELETE", "/models/numbers/aliases/best", 404, "'best'"),
    ("DELETE", "/models/numbers/aliases/latest", 409, "latest"),
]


@pytest.mark.parametrize(("method", "path", "status", "word"), NOWHERE)
def test_what_is_not_there(service: Service, method: str, path: str, status: int, word: str) -> None:
    answer = service.client.request(method, path)
    assert_problem(answer, status, word)


ALIASES: list[tuple[str, Any, int, str]] = [
    ("best", {"version": 9}, 404, "no version 9"),
    ("best", {}, 422, "missing field `version`"),
    ("best", {"version": "1"}, 422, "version: expected a whole number"),
    ("best", {"version": 1, "x": 1}, 422, "unknown field `x`"),
    ("7", {"version": 1}, 422, "alias"),
    ("a b", {"version": 1}, 422, "alias"),
]


@pytest.mark.parametrize(("alias", "body", "status", "word"), ALIASES)
def test_an_alias_that_cannot_be(service: Service, alias: str, body: Any, status: int, word: str) -> None:
    assert_problem(service.client.put(f"/models/numbers/aliases/{alias}", json=body), status, word)
    assert_problem(
        service.client.put("/models/numbers/aliases/best", content=json.dumps(body)), 415, "application/json"
    )


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    path=st.sampled_from(["/predict", "/predict?model=numbers", "/train"]),
    kind=st.sampled_from(["application/json", "text/csv", FORM, ""]),
    body=st.sampled_from(
        [
            b'{"model": "numbers", "rows": [[1, 2], [3, 4.5]], "interval": 0.9, "include": ["latent_std"]}',
            b'{"model": "waves@latest", "rows": [{"x": 1, "kind": "low"}]}',
            b'{"columns": {"x": [1, 2.5, "a"], "y": [1, null, 3]}, "spec": {"missing": "drop", "adapt": false}}',
            b"a,b\n1,2\n",
            b'--xx\r\nContent-Disposition: form-data; name="file"; filename="a.csv"\r\n\r\na,y\n1,2\n2,3\n\r\n'
            b'--xx\r\nContent-Disposition: form-data; name="spec"\r\n\r\n{"seed": 1}\r\n--xx--\r\n',
        ]
    ),
    data=st.data(),
)
def test_no_spoilt_request_is_a_bug_of_ours(service: Service, path: str, kind: str, body: bytes, data: Any) -> None:
    spoilt = bytearray(body)
    for _ in range(data.draw(st.integers(0, 3))):
        start = data.draw(st.integers(0, len(spoilt)))
        end = data.draw(st.integers(start, min(len(spoilt), start + 9)))
        spoilt[start:end] = data.draw(st.binary(max_size=4) | st.sampled_from([b"1e999", b"NaN", b"null", b"[", b'"']))
    answer = service.client.post(path, content=bytes(spoilt), headers={"content-type": kind} if kind else {})
    assert answer.status_code < 500, answer.text
    assert answer.status_code in (200, 202) or answer.headers["content-type"] == PROBLEM
