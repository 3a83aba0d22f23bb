"""`POST /predict` with a file of any size: from the disk to the disk, a part of its rows at a time.

The answer is complete before its first byte is sent: a wrong cell in the last row is still a refusal, and the headers
count the rows without a prediction. Parts of several files, and other large requests, are predicted in turn.
"""

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import IO, Any

from starlette.requests import Request
from starlette.responses import Response

from app.errors import InvalidRequestError, unwritable
from app.routes.encode import FILES, KeptForFeedback, file_headers, json_head, open_file
from app.routes.http.bodies import JSON, stream_body
from app.routes.http.callers import count_rows
from app.routes.http.file_answers import FileAnswer
from app.routes.http.services import Services, in_heavy_thread, in_reader_thread, services
from app.routes.http.table_readers import while_connected
from app.routes.http.uploads import receive_file, temporary_upload
from app.services.intake.ingest import IngestRequest, ingest
from app.services.monitoring.kept_predictions import RowNumbers, check_kept, with_interval
from app.services.predict.answer_files import AnswerFile
from app.services.predict.json_answer import JsonFiles, json_content, json_numbers
from app.services.predict.npy import NPY
from app.services.predict.options import OnError, PredictOptions
from app.services.predict.registry import ResolvedModel
from app.services.predict.row_notes import RowNotes
from app.services.predict.run import named_arrays, shown_arrays
from app.services.predict.table_parts import PartOptions, TablePart, file_parts, npy_parts
from app.tables import Limits, Source
from app.tables import open_file as open_table
from core.arrays import FloatArray


@asynccontextmanager
async def received(request: Request) -> AsyncIterator[Path]:
    """The body of the request as a file, until the end of the block."""
    app = services(request)
    limit, seconds = app.settings.max_upload_bytes, app.settings.max_upload_seconds
    pieces = stream_body(request, limit, "PURSUIT_MAX_UPLOAD_BYTES", seconds=seconds)
    with temporary_upload(app.scratch.path) as file:
        yield await receive_file(pieces, file)


@asynccontextmanager
async def written(request: Request, body: bytes) -> AsyncIterator[Path]:
    """A body in memory as a file."""
    with temporary_upload(services(request).scratch.path) as file:
        await in_heavy_thread(request, _write, file, body)
        yield Path(file.name)


async def answer_file(
    request: Request,
    path: Path,
    resolved: ResolvedModel,
    options: PredictOptions,
    part_options: PartOptions,
    media_type: str,
    keep_for_feedback: bool = False,
) -> Response:
    """Predict the rows of a file of any format; `media_type` is that of the answer."""
    app = services(request)
    try:
        with TemporaryDirectory(dir=app.scratch.path) as folder:
            rows, parts = await _open(request, app, path, Path(folder), resolved, part_options)
            if keep_for_feedback:
                check_kept(resolved.model, rows)
            await count_rows(request, app, resolved.name, rows)
            answer = _Answer(resolved, options, media_type, rows, Path(folder), keep_for_feedback=keep_for_feedback)
            work = _predict(request, app, parts, answer)
            return await while_connected(request, work)
    except OSError as error:
        raise unwritable(error) from error


async def _open(
    request: Request, app: Services, path: Path, folder: Path, resolved: ResolvedModel, options: PartOptions
) -> tuple[int, Iterator[TablePart]]:
    """The number of rows, and the parts."""
    with path.open("rb") as file:
        if file.read(len(NPY)) == NPY:
            return npy_parts(resolved.model, path, options)
    settings, schema = app.settings, resolved.model.schema
    asked = IngestRequest(
        upload=path,
        stored=folder / "table.parquet",
        limits=app.table_limits,
        options=replace(schema.read_options, decimal=None, thousands=None),
        known=schema.names,
        to_predict=True,
    )
    found = await in_reader_thread(
        request, ingest, asked, seconds=settings.max_read_seconds, memory=settings.read_memory
    )

    def lines(wanted: Any) -> dict[int, int]:
        sheet = schema.read_options.sheet
        source = Source(origin=path, limits=app.table_limits)
        return open_table(source, known=schema.names, least_columns=1, sheet=sheet, sheet_wanted=False).lines(wanted)

    return found.rows, file_parts(resolved.model, asked.stored, options, lines)


async def _predict(request: Request, app: Services, parts: Iterator[TablePart], answer: "_Answer") -> Response:
    tolerant = replace(answer.options, on_error=OnError.NULL)  # so that a refusal can name the row of the file
    try:
        while (part := await in_heavy_thread(request, next, parts, None)) is not None:
            arrays = await app.batcher.submit(answer.resolved.model, part.decoded.inputs, tolerant)
            app.metrics.predicted(answer.resolved.name, arrays)
            app.monitor.observe(answer.resolved, part.decoded.inputs, arrays)
            await in_heavy_thread(request, answer.add, part, arrays)
            if answer.intervals is not None:
                model, inputs = answer.resolved.model, part.decoded.inputs
                found = await with_interval(app.batcher, model, inputs, arrays, tolerant)
                answer.intervals.append(RowNumbers.of(model, part.decoded.spread(found)))
        if answer.intervals is not None:
            prediction = await app.keeper.keep_rows(answer.resolved, RowNumbers.concatenate(answer.intervals))
            answer.kept_for_feedback = KeptForFeedback(prediction)
        return await in_heavy_thread(request, answer.finish)
    except BaseException:
        answer.sink.close()
        raise
    finally:
        answer.json.__exit__()


class _Answer:
    """The answer in the making, in a file without a name."""

    def __init__(
        self,
        resolved: ResolvedModel,
        options: PredictOptions,
        media_type: str,
        rows: int,
        folder: Path,
        *,
        keep_for_feedback: bool,
    ) -> None:
        self.intervals: list[RowNumbers] | None = [] if keep_for_feedback else None
        self.kept_for_feedback: KeptForFeedback | None = None
        self.resolved, self.options = resolved, options
        self.sink: IO[bytes] = TemporaryFile(dir=folder)  # noqa: SIM115  closed by the answer that is sent
        self.json = JsonFiles(folder)
        self._media_type, self._rows = media_type, 0
        self._file: AnswerFile | None = None
        if media_type in FILES:
            self._file = open_file(self.sink, media_type, resolved, rows)
        self._notes = RowNotes()
        self._kept: list[str] = []
        self._shown: Mapping[str, FloatArray] = {}

    def add(self, part: TablePart, arrays: Mapping[str, FloatArray]) -> None:
        """Write a part. InvalidRequestError for a row without a prediction where it is not to be null."""
        found = part.decoded.spread(arrays)
        self._rows += part.decoded.rows
        self._notes.add(found, first_row=part.first_row, reason=part.decoded.reason, tolerated=True)
        if self._notes.failed.count and self.options.on_error is OnError.REFUSE:
            raise InvalidRequestError(f"{self._notes.reason}: its numbers are too large")
        integrates = self.resolved.model.integrated is not None
        self._shown = shown_arrays(found, self.options, imputed=integrates and self._media_type != JSON)
        if self._file is not None:
            self._shown = named_arrays(self.resolved.model, self._shown)
            self._file.write(self._shown, part.kept)
            return
        self._kept = list(part.kept)
        numbers = {name: json_numbers(name, array) for name, array in self._shown.items()}
        columns = {f"columns.{name}": column.to_pylist() for name, column in part.kept.items()}
        self.json.write(numbers | columns)

    def finish(self) -> Response:
        """Write the end, and return what sends it all."""
        headers = {}
        if self._file is not None:
            self._file.close(self._notes.sentence())
            headers = file_headers(self.resolved, self._shown, self.options, self._notes, self._media_type, self._rows)
            if self.kept_for_feedback is not None:
                headers |= self.kept_for_feedback.headers()
        else:
            self.json.finish(self._content, self.sink)
        return FileAnswer(self.sink, self._media_type, headers)

    def _content(self, arrays: Mapping[str, Any]) -> dict[str, Any]:
        content = json_content(self.resolved.model, json_head(self.resolved), arrays, self.options, self._notes)
        if self.kept_for_feedback is not None:
            content["prediction_id"] = self.kept_for_feedback.prediction
        if self._kept:
            content["columns"] = {name: arrays[f"columns.{name}"] for name in self._kept}
        return content


def small_limits(limits: Limits) -> Limits:
    """Limits of a table that is read and answered in memory, as one part."""
    return replace(limits, bytes=min(limits.bytes, SMALL_TEXT_BYTES), rows=min(limits.rows, SMALL_ROWS))


SMALL_TEXT_BYTES, SMALL_ROWS = 32 << 20, 200_000


def _write(file: IO[bytes], body: bytes) -> None:
    try:
        file.write(body)
        file.flush()
    except OSError as error:
        raise unwritable(error) from error
