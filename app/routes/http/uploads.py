"""`multipart/form-data` with one table and some fields, received to disk without being held in memory."""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import IO, TYPE_CHECKING

from anyio import to_thread
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from app.errors import InvalidRequestError, MalformedError, TooLargeError, unwritable

if TYPE_CHECKING:
    from python_multipart.multipart import MultipartCallbacks

FIELDS = "application/x-www-form-urlencoded"
"""Media type that clients send for a form without a file."""
MOST_FIELD_BYTES = 1 << 20
MOST_REPEATED = 100
"""Times that a part may come which may be repeated."""
_WRITE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """Received form: the file on disk, its name as sent, and the bytes of the other parts by name, of the last one
    where a part may be repeated; of all of those in `repeated`."""

    path: Path
    filename: str
    fields: Mapping[str, bytes]
    repeated: Mapping[str, Sequence[bytes]] = field(default_factory=dict)


def refuse_fields(content_type: str) -> None:
    """InvalidRequestError for a form of fields alone, which says what it lacks better than its content type does."""
    if content_type == FIELDS:
        raise InvalidRequestError(
            "there is no file: the form came as fields alone; send it as multipart/form-data, "
            "with the table as its part `file`"
        )


@contextmanager
def temporary_upload(directory: Path) -> Iterator[IO[bytes]]:
    """A new file in `directory`, deleted afterwards whatever happens. UnavailableError if it cannot be made."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        file = NamedTemporaryFile(dir=directory, prefix="upload-", suffix=".part", delete=True)  # noqa: SIM115  below
    except OSError as error:
        raise unwritable(error) from error
    try:
        yield file
    finally:
        with suppress(OSError):  # on a full disk closing tries once more to write what could not be written
            file.close()


async def receive_file(pieces: AsyncIterator[bytes], file: IO[bytes]) -> Path:
    """Read a body to its end into `file`; return the path. UnavailableError where the disk takes no more."""
    async for piece in pieces:
        await to_thread.run_sync(_store, file, piece)
    return Path(file.name)


async def receive_upload(
    content_type: str,
    pieces: AsyncIterator[bytes],
    file: IO[bytes],
    known: Sequence[str],
    repeated: Sequence[str] = (),
) -> Upload:
    """Read the form to its end; the part `file` goes into `file`. known: names of the other parts; repeated: those of
    them that may come more than once.

    Raises MalformedError where it is not multipart, InvalidRequestError where the part `file` is missing or empty, a
    part is there twice, or has another name.
    """
    _, options = parse_options_header(content_type)
    boundary = options.get(b"boundary")
    if not boundary:
        raise MalformedError("the Content-Type of this form has no boundary; let the client library set it")
    form = _Form(known, repeated)
    try:
        parser = MultipartParser(boundary, form.callbacks())
        async for piece in pieces:
            parser.write(piece)
            if len(form.waiting) >= _WRITE_BYTES:
                await to_thread.run_sync(_store, file, form.take())
        parser.finalize()
    except FormParserError as error:
        raise MalformedError(f"the body is not the form its Content-Type says: {error}") from error
    await to_thread.run_sync(_store, file, form.take())
    if not form.ended:
        raise MalformedError("the form ends in the middle: its closing boundary is missing")
    if "file" not in form.seen:
        got = f"; got the parts {', '.join(form.seen)}" if form.seen else ""
        raise InvalidRequestError(f"there is no file: send the table as the form part `file`{got}")
    fields = {name: bytes(values[-1]) for name, values in form.fields.items()}
    several = {name: [*map(bytes, form.fields[name])] for name in repeated if name in form.fields}
    return Upload(path=Path(file.name), filename=form.filename, fields=fields, repeated=several)


def _store(file: IO[bytes], data: bytes) -> None:
    try:
        file.write(data)
        file.flush()
    except OSError as error:
        raise unwritable(error) from error


class _Form:
    """Receiver of the parser's callbacks, for the parts of a form."""

    def __init__(self, known: Sequence[str], repeated: Sequence[str]) -> None:
        self._known, self._repeated = ("file", *known), repeated
        self.waiting = bytearray()
        self.fields: dict[str, list[bytearray]] = {}
        self.filename = ""
        self.seen: list[str] = []
        self.ended = False
        self._header = bytearray()
        self._value = bytearray()
        self._disposition = b""
        self._part = ""

    def callbacks(self) -> "MultipartCallbacks":
        """Callbacks of `MultipartParser`."""
        return {
            "on_part_begin": self._begin,
            "on_header_field": lambda data, start, end: self._header.extend(data[start:end]),
            "on_header_value": lambda data, start, end: self._value.extend(data[start:end]),
            "on_header_end": self._end_header,
            "on_headers_finished": self._open,
            "on_part_data": self._data,
            "on_end": self._end,
        }

    def take(self) -> bytes:
        """The bytes of the file that wait to be written."""
        data = bytes(self.waiting)
        self.waiting.clear()
        return data

    def _begin(self) -> None:
        self._disposition = b""

    def _end_header(self) -> None:
        if bytes(self._header).lower() == b"content-disposition":
            self._disposition = bytes(self._value)
        self._header.clear()
        self._value.clear()

    def _open(self) -> None:
        _, options = parse_options_header(self._disposition)
        name = options.get(b"name", b"").decode(errors="replace")
        if name not in self._known:
            parts = f"{', '.join(f'`{part}`' for part in self._known[:-1])} and `{self._known[-1]}`"
            raise InvalidRequestError(f"unknown form part {name!r}; a form has the parts {parts}")
        if name in self.seen and name not in self._repeated:
            raise InvalidRequestError(f"the form part `{name}` is there twice")
        if self.seen.count(name) == MOST_REPEATED:
            raise InvalidRequestError(f"the form part `{name}` is there more than {MOST_REPEATED} times")
        self.seen.append(name)
        self._part = name
        if name != "file":
            self.fields.setdefault(name, []).append(bytearray())
        else:
            if b"filename" not in options:
                raise InvalidRequestError("the form part `file` is not a file: it has no filename")
            self.filename = options[b"filename"].decode(errors="replace")

    def _data(self, data: bytes, start: int, end: int) -> None:
        if self._part == "file":
            self.waiting += data[start:end]
            return
        value = self.fields[self._part][-1]
        value += data[start:end]
        if len(value) > MOST_FIELD_BYTES:
            raise TooLargeError(f"the form part `{self._part}` has more than {MOST_FIELD_BYTES} bytes")

    def _end(self) -> None:
        self.ended = True
