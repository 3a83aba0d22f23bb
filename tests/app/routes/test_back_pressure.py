"""What the service does under more than it can take at once: it says so, and goes on with the rest."""

import io
import json
import logging
import os
import socket
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from openpyxl import Workbook

from app.services.intake import ingest
from app.settings import available_cores
from tests.app.routes.problems import assert_problem
from tests.app.routes.service import JSON_BODY, QUICK, Service, numbers, running
from tests.processes import children, wait_until

MIB = 1 << 20


@pytest.fixture(scope="module")
def narrow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Little memory for bodies, one job in the queue."""
    limits = {"max_bodies_bytes": 2 * MIB, "max_body_bytes": 2 * MIB, "max_queued_jobs": 1}
    with running(tmp_path_factory.mktemp("narrow"), **limits) as service:
        yield service


def connect(service: Service) -> socket.socket:
    url = service.client.base_url
    return socket.create_connection((url.host, url.port or 0), timeout=20.0)


def head(path: str, length: int, content_type: str = "application/json") -> bytes:
    lines = [f"POST {path} HTTP/1.1", "Host: x", f"Content-Type: {content_type}", f"Content-Length: {length}"]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


@pytest.mark.parametrize("path", ["/predict", "/train", "/datasets", "/v2/models/m/infer"])
def test_bodies_in_progress_share_a_budget_and_leave_it(narrow: Service, path: str) -> None:
    """An unfinished body holds most of it: another is 503 with Retry-After; once its sender has left there is room."""
    body = json.dumps({"model": "none", "rows": [], "pad": "x" * MIB}).encode()
    with connect(narrow) as slow:
        slow.sendall(head(path, 2 * MIB - 1) + b"x" * (3 * MIB // 2))
        time.sleep(0.5)  # the server has read it
        answer = narrow.client.post(path, content=body, headers=JSON_BODY)
        assert answer.status_code == 503
        assert answer.headers["retry-after"] == "5"
        assert narrow.client.post("/predict", json={"model": "none", "rows": []}).status_code == 404, "small ones go on"
    wait_until(lambda: narrow.client.post(path, content=body, headers=JSON_BODY).status_code < 500)


def test_a_body_that_comes_too_slowly_is_refused(tmp_path: Path) -> None:
    with running(tmp_path, max_body_seconds=0.3) as service:
        for path in ("/predict", "/train"):
            with connect(service) as slow:
                slow.sendall(head(path, MIB) + b"x")
                answer = slow.recv(1 << 16)
            assert answer.startswith(b"HTTP/1.1 408")
            assert b"PURSUIT_MAX_BODY_SECONDS" in answer


@pytest.mark.parametrize(
    ("path", "content_type"),
    [
        ("/predict", "application/json"),
        ("/train", "multipart/form-data; boundary=xx"),
        ("/datasets", "application/json"),
    ],
)
def test_a_client_that_breaks_off_is_no_error(
    empty: Service, caplog: pytest.LogCaptureFixture, path: str, content_type: str
) -> None:
    caplog.set_level(logging.INFO)
    with connect(empty) as leaving:
        leaving.sendall(head(path, 1000, content_type) + b"--xx\r\n")
    wait_until(lambda: any(record.name == "app.access" for record in caplog.records))
    (line,) = [record for record in caplog.records if record.name == "app.access"]
    assert vars(line)["status"] == 499
    assert [record for record in caplog.records if record.exc_info or record.levelno >= logging.WARNING] == []


def test_a_full_queue_says_so_and_known_keys_have_their_job(narrow: Service) -> None:
    key = {"Idempotency-Key": "once"}
    first = narrow.post_file(numbers(), QUICK, headers=key)
    assert first.status_code == 202
    for headers in ({}, {"Idempotency-Key": "another"}):
        answer = narrow.post_file(numbers(), QUICK, headers=headers)
        assert_problem(answer, 503, "PURSUIT_MAX_QUEUED_JOBS")
        assert answer.headers["retry-after"] == "5"
    assert narrow.post_file(numbers(), QUICK, headers=key).json()["id"] == first.json()["id"]
    update = narrow.client.post("/models/none/update", json={"rows": []})  # before anything of it is looked at
    assert_problem(update, 503, "PURSUIT_MAX_QUEUED_JOBS")
    narrow.work()
    assert narrow.post_file(numbers(), QUICK).status_code == 202


def workbook(rows: int) -> bytes:
    """A workbook of so many rows alike."""
    book = Workbook(write_only=True)
    sheet = book.create_sheet()
    sheet.append(["a", "b"])
    for _ in range(rows):
        sheet.append([1.5, 2.5])
    file = io.BytesIO()
    book.save(file)
    return file.getvalue()


def form(body: bytes) -> bytes:
    opening = b'--xx\r\ncontent-disposition: form-data; name="file"; filename="a.xlsx"\r\n\r\n'
    return opening + body + b"\r\n--xx--\r\n"


def test_tables_wait_apart_and_their_reading_ends_with_the_client(tmp_path: Path) -> None:
    """Readers hold nobody else up, one too many is 503, and a client that leaves ends the process that reads."""
    before = set(children(os.getpid()))
    upload = form(workbook(30_000))
    with running(tmp_path, max_waiting_tables=1) as service:
        number = max(2, available_cores())
        clients = [connect(service) for _ in range(number + 1)]
        for client in clients:
            client.sendall(head("/datasets", len(upload), "multipart/form-data; boundary=xx") + upload)
        wait_until(lambda: len(set(children(os.getpid())) - before) >= number)
        assert_problem(service.client.post("/datasets", files={"file": ("a.csv", "a,b\n1,2\n")}), 503, "busy")
        began = time.perf_counter()
        assert (
            service.client.post(
                "/predict?model=m", content=b"a,b\n1,2\n", headers={"content-type": "text/csv"}
            ).status_code
            == 404
        )
        assert time.perf_counter() - began < 5.0, "it did not wait for a reader"
        for client in clients:
            client.close()
        wait_until(lambda: not set(children(os.getpid())) - before)
        assert service.client.post("/datasets", files={"file": ("a.csv", "a,b\n1,2\n")}).status_code == 201


def test_a_reader_has_so_much_memory_and_no_more(tmp_path: Path) -> None:
    with running(tmp_path, max_read_memory_bytes=64 * MIB) as service:
        answer = service.client.post("/datasets", files={"file": ("a.csv", "a,b\n" + "1.5,2.5\n" * 2_000_000)})
        assert_problem(answer, 413, "PURSUIT_MAX_READ_MEMORY_BYTES")
        assert service.client.post("/datasets", files={"file": ("a.csv", "a,b\n1,2\n")}).status_code == 201


def test_a_small_archive_that_is_no_workbook_starts_no_process(empty: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one without its directory, and a Parquet file without its end."""
    monkeypatch.setattr(ingest, "_COMMAND", ["/nowhere"])
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as made:
        made.writestr("a", "")
    for body, status in ((archive.getvalue(), 415), (archive.getvalue()[:40], 400), (b"PAR1" + bytes(50), 400)):
        answer = empty.client.post("/datasets", files={"file": ("a", body)})
        assert answer.status_code == status, answer.text
