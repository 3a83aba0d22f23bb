"""Requests made to do harm, against a real server: a refusal, soon, in little memory (deploy/SECURITY.md)."""

import io
import json
import socket
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.app.routes.service import JSON_BODY, QUICK, Service, numbers, running, waves
from tests.app.tables.files import workbook

SECONDS = 10.0
"""What a refusal may take here, where other tests run beside it."""


def refused(answer: httpx.Response, *words: str, status: tuple[int, ...] = (400, 404, 413, 415, 422)) -> None:
    assert answer.status_code in status, (answer.status_code, answer.text[:300])
    assert len(answer.content) < 5_000
    for word in words:
        assert word in answer.json()["detail"]


def arrow(columns: dict[str, object], codec: Any = "zstd", *, stream: bool = True) -> bytes:
    table = pa.table(columns)
    out = io.BytesIO()
    opened = pa.ipc.new_stream if stream else pa.ipc.new_file
    with opened(out, table.schema, options=pa.ipc.IpcWriteOptions(compression=codec)) as writer:
        writer.write_table(table)
    return out.getvalue()


def parquet(columns: dict[str, object], **options: Any) -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.table(columns), out, **options)
    return out.getvalue()


def xlsx_bomb() -> bytes:
    """A sheet of 100 MB of blanks between two rows."""
    out = io.BytesIO()
    whole = zipfile.ZipFile(io.BytesIO(workbook({"a": [1.0], "y": [2.0]})))
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as made:
        for name in whole.namelist():
            content = whole.read(name)
            made.writestr(
                name,
                content.replace(b"</sheetData>", b" " * 100_000_000 + b"</sheetData>") if "sheet1" in name else content,
            )
    return out.getvalue()


ZEROS = np.zeros(5_000_000)
BOMBS = {
    "Arrow stream, compressed": lambda: arrow({"a": ZEROS, "b": ZEROS}),
    "Arrow stream, lz4": lambda: arrow({"a": ZEROS, "b": ZEROS}, "lz4"),
    "Arrow file, compressed": lambda: arrow({"a": ZEROS, "b": ZEROS}, stream=False),
    "Arrow text": lambda: arrow({"a": ["x" * 120_000_000], "b": [1.0]}),
    "Arrow dictionary": lambda: arrow({"a": pa.array(["x" * 120_000_000]).dictionary_encode(), "b": [1.0]}),
    "Arrow runs": lambda: arrow(
        {"a": pa.RunEndEncodedArray.from_arrays(pa.array([2**31 - 1], pa.int32()), pa.array([1.0]))}, None
    ),
    "Arrow nulls": lambda: arrow({"a": pa.nulls(20_000_000), "b": pa.nulls(20_000_000)}, None),
    "Parquet runs": lambda: parquet({"a": ZEROS, "b": ZEROS}),
    "Parquet text": lambda: parquet({"a": ["x" * 120_000_000], "b": [1.0]}, compression="zstd"),
    "Parquet text, gzip": lambda: parquet(
        {"a": ["x" * 100_000_000], "b": [1.0]}, compression="gzip", use_dictionary=False
    ),
    "Parquet columns": lambda: parquet({f"c{place}": [1.0] for place in range(2_000)}),
    "Excel": xlsx_bomb,
}


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A server of small tables, with a model."""
    with running(tmp_path_factory.mktemp("small"), max_table_bytes=30 << 20, max_rows=100_000) as found:
        assert found.train(numbers(60), model="numbers", **QUICK)["state"] == "succeeded"
        yield found


QUICK_BOMBS = {"Arrow stream, compressed", "Arrow nulls", "Parquet text"}
"""The others are slow: each starts a process that reads it once more."""


@pytest.mark.parametrize(
    "name", [name if name in QUICK_BOMBS else pytest.param(name, marks=pytest.mark.slow) for name in BOMBS]
)
def test_a_bomb_to_predict_is_refused_in_little_memory(small: Service, name: str) -> None:
    """Small files are read in the API's own process, where nothing but the limits would end it."""
    data = BOMBS[name]()
    assert len(data) < 4 << 20
    headers = {"content-type": "application/octet-stream"}
    peak = peak_bytes()
    began = time.monotonic()
    answer = small.client.post("/predict?model=numbers", content=data, headers=headers)
    refused(answer)
    assert time.monotonic() - began < SECONDS
    assert peak_bytes() - peak < 100 << 20


def peak_bytes() -> int:
    """The most memory that this process, in which the server is, ever had, and no other: not of table readers."""
    text = Path("/proc/self/status").read_text(encoding="ascii")
    return int(text.partition("VmHWM:")[2].split()[0]) << 10


@pytest.mark.parametrize("place", [20_000, pytest.param(1_000_000, marks=pytest.mark.slow)])
def test_a_million_columns(service: Service, place: int) -> None:
    names = ",".join(f"c{number}" for number in range(place))
    began = time.monotonic()
    refused(service.post_file(f"{names}\n{','.join('1' * place)}\n"))
    cells = json.dumps({"columns": {f"c{number}": [1] for number in range(place)}})
    refused(service.client.post("/datasets", content=cells, headers=JSON_BODY), "PURSUIT_MAX_COLUMNS")
    row = json.dumps({"model": "numbers", "rows": [{f"c{number}": 1 for number in range(place)}]})
    refused(service.client.post("/predict", content=row, headers=JSON_BODY), "missing")
    assert time.monotonic() - began < SECONDS * place / 50_000


@pytest.mark.parametrize("path", ["/predict", "/train", "/datasets", "/feedback", "/v2/models/waves/infer", "/keys"])
def test_deep_json_and_numbers_without_an_end(service: Service, path: str) -> None:
    for body in (
        b"[" * 200_000,
        b'{"rows":' * 100_000,
        b'{"rows": [[' + b"9" * 1_000_000 + b"]]}",
        b'{"model": 1e999999999}',
    ):
        began = time.monotonic()
        answer = service.client.post(path, content=body, headers=JSON_BODY)
        assert answer.status_code in {400, 422}, answer.text[:300]
        assert len(answer.content) < 5_000
        assert time.monotonic() - began < SECONDS


@pytest.mark.parametrize(
    "path",
    [
        "/page/..%2f..%2f..%2fetc%2fpasswd",
        "/page/%2e%2e/settings.py",
        "/page/..%5c..%5cetc%5cpasswd",
        "/docs/..%2f..%2fmain.py",
        "/help/..%2f..%2fsettings",
        "/help/%2e%2e%2f%2e%2e%2fREADME",
        "/models/..%2f..%2fpursuit.db",
        "/models/waves/versions/..%2f1/artefact",
        "/datasets/..%2f..%2fpursuit.db",
        "/jobs/..%2f..%2fetc%2fpasswd/predictions",
        "//etc/passwd",
        "/page/\0",
    ],
)
def test_paths_out_of_the_folder(service: Service, path: str) -> None:
    answer = service.client.get(httpx.URL(service.client.base_url, raw_path=path.replace("\0", "%00").encode()))
    assert answer.status_code in {404, 422}, answer.text[:200]
    assert b"root:" not in answer.content
    assert b"import" not in answer.content


@pytest.mark.parametrize(
    "filename", ["../../../etc/passwd", "..\\..\\x.csv", "a\r\nX-Evil: 1.csv", "\u202egpj.csv", "/", "é" * 300, ""]
)
def test_names_of_files_stay_names(service: Service, filename: str) -> None:
    """They name a model, or a dataset, and no file: outside of the store nothing is written."""
    before = sorted(path for path in service.settings.data_dir.rglob("*") if "uploads" not in path.parts)
    answer = service.client.post(
        "/train", files={"file": (filename or "x", waves(40))}, data={"spec": json.dumps(QUICK)}
    )
    assert answer.status_code == 202, answer.text
    assert set(answer.json()["model"]) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")
    assert "x-evil" not in answer.headers
    after = sorted(path for path in service.settings.data_dir.rglob("*") if "uploads" not in path.parts)
    new = [path for path in set(after) - set(before) if path.is_file() and path.parent.name != "tables"]
    assert all(service.settings.data_dir in path.parents for path in new)
    assert not (service.settings.data_dir.parent / "etc").exists()


def raw(service: Service, *lines: bytes) -> bytes:
    """The answer to a request as bytes, as no client library would send it."""
    address = urlsplit(str(service.client.base_url))
    with socket.create_connection((address.hostname, address.port), timeout=SECONDS) as connection:
        connection.sendall(b"\r\n".join(lines))
        connection.settimeout(SECONDS)
        found = b""
        while piece := connection.recv(65536):
            found += piece
            if len(found) > 1 << 20:
                break
    return found


@pytest.mark.parametrize("identifier", [b"a\x01b", b"a\tSet-Cookie: x", b"x" * 4000, b"\xff\xfe", b"<script>", b"a\rb"])
def test_no_header_of_the_client_comes_back_as_more_than_a_word(service: Service, identifier: bytes) -> None:
    found = raw(
        service,
        b"GET /health/live HTTP/1.1",
        b"Host: a",
        b"Connection: close",
        b"X-Request-ID: " + identifier,
        b"Idempotency-Key: " + identifier,
        b"",
        b"",
    )
    head = found.partition(b"\r\n\r\n")[0]
    assert identifier not in head
    assert b"Set-Cookie" not in head
    assert head.count(b"\r\n") == head.count(b"\n")


def test_parts_of_a_form_without_an_end(service: Service) -> None:
    """Headers of a part, its name and the boundary are kept in memory: they have a limit of their own."""
    for head in (
        b'Content-Disposition: form-data; name="file"; filename="' + b"x" * 3_000_000 + b'"',
        b"X-" + b"a" * 3_000_000 + b": 1",
        b"\r\n".join(b"X-%d: 1" % number for number in range(100_000)),
    ):
        body = b"--b\r\n" + head + b"\r\n\r\na,y\n1,2\n\r\n--b--\r\n"
        answer = service.client.post(
            "/train", content=body, headers={"content-type": "multipart/form-data; boundary=b"}
        )
        refused(answer, status=(400,))
