"""The upload's file where the disk refuses it."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from app.errors import UnavailableError
from app.routes.http.uploads import receive_upload, temporary_upload

FORM = b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.csv"\r\n\r\nx,y\n1,2\n\r\n--b--\r\n'


async def pieces() -> AsyncIterator[bytes]:
    yield FORM


def test_the_file_is_gone_afterwards(tmp_path: Path) -> None:
    with temporary_upload(tmp_path / "new") as file:
        upload = asyncio.run(receive_upload("multipart/form-data; boundary=b", pieces(), file, ("spec",)))
        assert upload.path.read_bytes() == b"x,y\n1,2\n"
    assert list((tmp_path / "new").iterdir()) == []


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with (
        pytest.raises(UnavailableError, match="the server's disk cannot be written: N"),
        temporary_upload(tmp_path / "file" / "uploads"),
    ):
        pass


def test_an_error_of_the_work_on_the_file_stays_what_it_is(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), temporary_upload(tmp_path):
        (tmp_path / "nothing").read_bytes()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_full_disk(tmp_path: Path) -> None:
    refused = pytest.raises(UnavailableError, match="the disk of the server is full")
    with refused, temporary_upload(tmp_path) as file:
        full = os.open("/dev/full", os.O_WRONLY)
        os.dup2(full, file.fileno())  # closing meets the full disk once more
        os.close(full)
        asyncio.run(receive_upload("multipart/form-data; boundary=b", pieces(), file, ("spec",)))
    assert list(tmp_path.iterdir()) == []
