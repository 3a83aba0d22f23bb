"""Tables on the server: kept there, trained on and predicted by jobs; and files that are sent as they are."""

import io
import time
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO, Self

import pyarrow as pa
import pyarrow.parquet as pq

from app.cli.addresses import is_dataset
from app.cli.client import ENDED
from app.cli.client import Client as ServerClient

from .errors import InvalidError, JobError, read_file, server_errors, warn
from .files import write_whole
from .frames import ARROW, table_file
from .options import Interval, Options

_PAGE = 500
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 1.0


def dataset_id(data: Any) -> str | None:
    """Return the id of a dataset that is given as such or by its id; None for other tables."""
    if isinstance(data, Dataset):
        return data.id
    return data if isinstance(data, str) and is_dataset(data) else None


def named_file(data: Any) -> tuple[str, BinaryIO]:
    """Return a table to upload, of a file or made of a frame, and a name that tells its kind."""
    if isinstance(data, str | PathLike):
        return Path(data).name, io.BytesIO(read_file(data))
    return table_file(data)


def predict_file(http: ServerClient, model: str, path: str | PathLike[str], options: Options) -> pa.Table:
    """Predict the rows of a file, which the server reads; return an Arrow table."""
    query = options.query(model) | ({} if options.keep is None else {"keep": options.keep.value})
    body = read_file(path)
    with server_errors():
        answer = http.predict_body(body, content_type="application/octet-stream", accept=ARROW, query=query)
    if told := answer.headers.get("x-warnings"):
        warn(told)
    return pa.ipc.open_stream(answer.content).read_all()


def used_columns(details: Mapping[str, Any]) -> set[str]:
    """Return the columns that a version reads, and its target."""
    return {*details.get("targets", [details["target"]]), *(column["name"] for column in details["report"]["columns"])}


class Datasets:
    """Tables that are kept on the server, as a client handles them."""

    http: ServerClient

    def upload(self, data: Any, *, target: str | None = None, name: str | None = None) -> "Dataset":
        """Keep a table on the server: a data frame, a list of dicts, or the path of a file; return it as it was read.

        target: column that is to be predicted, whose warnings are then told too. name: of the dataset.
        """
        kind, file = named_file(data)
        shown = kind if name is None else f"{name}{Path(kind).suffix}"
        with server_errors():
            return Dataset(self, self.http.add_dataset(shown, file, target=target))

    def register(self, location: str, *, target: str | None = None) -> "Dataset":
        """Make a dataset of the Parquet files of a folder that the server sees, s3://bucket/folder/ or a path there;
        return it as it was read. The files stay where they are, and trainings on it refuse files that have changed.

        target: as for `upload`. InvalidError for a folder that the operator does not allow, and naming file and column
        where the files do not agree.
        """
        with server_errors():
            return Dataset(self, self.http.register_dataset(location, target=target))

    def dataset(self, dataset: str) -> "Dataset":
        """Return a dataset by its id. NotFoundError where there is none."""
        with server_errors():
            return Dataset(self, self.http.dataset(dataset))

    def datasets(self) -> list[dict[str, Any]]:
        """List all datasets, the newest first: id, name, rows, size_bytes, created_at."""
        found: list[dict[str, Any]] = []
        cursor: str | None = None
        while True:
            with server_errors():
                page = self.http.datasets(limit=_PAGE, cursor=cursor)
            found += page["datasets"]
            cursor = page.get("next_cursor")
            if cursor is None:
                return found

    def predict_dataset(
        self,
        model: str,
        dataset: "Dataset | str",
        *,
        interval: Interval = None,
        quantiles: Sequence[float] = (),
        include: Sequence[str] = (),
        on_error: str | None = None,
        keep: str | None = None,
        keep_for_feedback: bool = False,
    ) -> "PredictionJob":
        """Start a job that predicts a dataset, done by a worker whatever becomes of this program; options as for
        `predict`. keep_for_feedback: the server keeps mean and interval of each row, at most 100,000, and
        `feedback(job.prediction_id, truth)` tells the truth later."""
        options = Options.of(interval, quantiles, include, on_error, keep, keep_for_feedback=keep_for_feedback)
        fields = {**options.fields(model), **({} if options.keep is None else {"keep": options.keep.value})}
        with server_errors():
            which = dataset.id if isinstance(dataset, Dataset) else dataset
            found = self.http.predict_dataset(fields.pop("model"), which, fields)
        return PredictionJob(self.http, found)


class Dataset:
    """A table on the server. columns: how each was read; warnings: what was noticed."""

    def __init__(self, client: Datasets, document: Mapping[str, Any]) -> None:
        self._client = client
        self.document = dict(document)

    def __repr__(self) -> str:
        return f"Dataset({self.id!r}, {self.document['rows']} rows)"

    @property
    def id(self) -> str:
        """Id of the dataset."""
        return str(self.document["id"])

    @property
    def columns(self) -> list[dict[str, Any]]:
        """Columns: name, kind, and what their cells are like."""
        return list(self.document["columns"])

    @property
    def warnings(self) -> list[str]:
        """Notes about the table as a whole."""
        return [str(warning) for warning in self.document["warnings"]]

    def append(self, data: Any) -> "Dataset":
        """Return a new dataset with these rows after its own: a data frame, a list of dicts or the path of a file with
        the same columns. InvalidError names what does not fit."""
        name, file = named_file(data)
        with server_errors():
            return Dataset(self._client, self._client.http.append_dataset(self.id, name, file))

    def delete(self) -> None:
        """Delete it: jobs that train on it go on, models stay."""
        with server_errors():
            self._client.http.delete("datasets", self.id)


class PredictionJob:
    """A job that predicts a dataset."""

    def __init__(self, http: ServerClient, document: Mapping[str, Any]) -> None:
        self._http = http
        self.document = dict(document)

    def __repr__(self) -> str:
        return f"PredictionJob({self.id!r}, {self.state})"

    @property
    def id(self) -> str:
        """Id of the job."""
        return str(self.document["id"])

    @property
    def state(self) -> str:
        """State when the job was last asked for."""
        return str(self.document["state"])

    def wait(self) -> Self:
        """Wait for the end. JobError where it fails or is cancelled."""
        pause = _FIRST_PAUSE
        while self.state not in ENDED:
            time.sleep(pause)
            pause = min(1.5 * pause, _LONGEST_PAUSE)
            with server_errors():
                self.document = self._http.job(self.id)
        if self.state != "succeeded":
            raise JobError(self.document)
        return self

    @property
    def prediction_id(self) -> str:
        """Id that the rows are kept under for their truth. InvalidError before the end, or where they are not kept."""
        found = (self.document.get("result") or {}).get("prediction_id")
        if found is None:
            raise InvalidError(f"{self.id} is {self.state}: it has kept no predictions for their truth (`feedback`)")
        return str(found)

    def table(self) -> pa.Table:
        """Return the predictions of a job that has ended, with the columns that were kept."""
        return pq.read_table(io.BytesIO(self._file()))

    def save(self, path: str | PathLike[str]) -> Path:
        """Write the predictions as a Parquet file; return the path."""
        return write_whole(path, self._file())

    def _file(self) -> bytes:
        if self.state != "succeeded":
            raise InvalidError(
                f"{self.id} is {self.state}: its predictions are there once it has succeeded; wait() does"
            )
        with server_errors():
            return self._http.predictions(self.id)
