"""Parsers of what comes from outside, each as a function of bytes, with valid inputs to begin from."""

import struct
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from functools import cache, partial
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from app.routes import inference
from app.routes.http.table_requests import columns_of, read_request, rows_of, spec_of
from app.routes.predict import PredictRequest, _decode_rows, _decode_tolerantly, _options
from app.services.artefact_checks import check_header
from app.services.artefact_import import check_artefact
from app.services.decoding import check_depth, decode, decode_any
from app.services.intake.ingest import IngestRequest, _ingest_here, ingest_table
from app.services.predict.loaded_model import LoadedModel, prepare_model
from app.services.predict.npy import NpyRows, read_npy
from app.services.predict.options import Keep, OnError
from app.services.predict.table_parts import PartOptions, matrix_part, read_part
from app.services.predict.tensors import read_tensors, to_inputs
from app.services.spec_reading import read_spec
from app.services.specification import SpecBody
from app.storage import artefact
from app.tables import Limits, from_columns, from_rows
from tests.app.routes.service import numbers, running, waves
from tests.app.tables.files import FORMATS

LIMITS = Limits(bytes=8 << 20, rows=50_000)
MAX_BASIS_SIZE = 500
SPECS: tuple[dict[str, Any], ...] = (
    {"artefact": "compact", "tolerance": 0.2},
    {"artefact": "mean"},
    {"noise": "input-dependent", "intervals": "asymmetric"},
    {"mean_rows": "all", "kernel": "matern32"},
    {},
    {"missing": "impute", "target_transform": "yeo-johnson"},
)
"""Trainings whose artefacts are the seeds: one of each form of a model; the last is predicted with."""
NUMERIC = {"features": ["a", "b"], "model": "numeric"}
"""And one of numbers alone, which matrices are predicted with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A parser. mutation: which changes suit its inputs; seeds: valid inputs."""

    run: Callable[[bytes], object]
    mutation: str
    seeds: Callable[[], Sequence[bytes]]


def artefacts() -> list[bytes]:
    """Return artefacts of small models of every form, trained by the service."""
    found = []
    with tempfile.TemporaryDirectory() as folder, running(Path(folder)) as service:
        for place, spec in enumerate([*SPECS, NUMERIC]):
            chosen = {"adapt": False, "basis_size": 10, "effort": "quick", "holdout": 0, "model": f"m{place}", **spec}
            job = service.train(numbers(60) if spec is NUMERIC else waves(60), **chosen)
            assert job["state"] == "succeeded", job
            found.append(service.client.get(f"/models/{chosen['model']}/versions/1/artefact").content)
    return found


def _files(*names: str) -> list[bytes]:
    columns: dict[str, list[Any]] = {
        "x": [1.5, -2.5e10, None] * 4,
        "c": ["a", "b, c", 'ü "d"'] * 4,
        "d": [date(2011, 1, 1), date(2011, 2, 1)] * 6,
        "b": [True, False] * 6,
        "y": [float(row) for row in range(12)],
    }
    return [FORMATS[name](columns) for name in names]


def _typed_table() -> pa.Table:
    """Every type of cell that Arrow has and is read here."""
    n = 8
    return pa.table(
        {
            "i": pa.array(range(n), pa.int16()),
            "u": pa.array([2**64 - 1 - i for i in range(n)], pa.uint64()),
            "f": pa.array([0.5 * i for i in range(n)], pa.float32()),
            "s": pa.array(["a", "b", None, "d"] * 2, pa.large_string()),
            "k": pa.array(["a", "b"] * 4).dictionary_encode(),
            "t": pa.array([datetime(2020, 1, 1, 12)] * n, pa.timestamp("ms", tz="Europe/Berlin")),
            "z": pa.array([3600] * n, pa.time32("s")),
            "l": pa.array([[1.0]] * n),
            "e": pa.array([1, 2] * 4, pa.decimal128(20, 3)),
            "m": pa.array([10**6] * n, pa.duration("us")),
            "y": pa.array([float(i) for i in range(n)]),
        }
    )


def _parquet() -> list[bytes]:
    found = _files("Parquet", "Parquet, gzip")
    for options in (
        {"compression": "zstd"},
        {"compression": "gzip", "data_page_version": "2.0"},
        {"use_dictionary": False},
    ):
        sink = BytesIO()
        pq.write_table(_typed_table(), sink, **options)
        found.append(sink.getvalue())
    return found


def _arrow() -> list[bytes]:
    found = _files("Arrow file", "Arrow stream")
    for compression in (None, "zstd", "lz4"):
        for opened in (pa.ipc.new_file, pa.ipc.new_stream):
            sink = BytesIO()
            with opened(sink, _typed_table().schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
                writer.write_table(_typed_table())
            found.append(sink.getvalue())
    return found


def _predicted_files() -> list[bytes]:
    columns: dict[str, list[Any]] = {"kind": ["low", "high"] * 3, "x": [1.5, None, 2.5] * 2, "z": list("abcdef")}
    names = ("comma", "semicolon and decimal comma", "JSON Lines", "Parquet", "Arrow stream", "Excel", "zstd")
    return [FORMATS[name](columns) for name in names]


def _npy() -> list[bytes]:
    found = []
    for array in (
        np.ones((3, 2)),
        np.arange(6).reshape(3, 2),
        np.asfortranarray(np.ones((3, 2), "f4")),
        np.ones((1, 2), ">i2"),
    ):
        for version in ((1, 0), (2, 0)):
            out = BytesIO()
            np.lib.format.write_array(out, array, version=version)
            found.append(out.getvalue())
    return found


def _ingest(data: bytes, *, folder: Path) -> None:
    """Read a table as an upload of /train and /datasets is."""
    upload, stored = folder / "upload", folder / "stored"
    upload.write_bytes(data)
    spec = SpecBody.model_validate({"missing": "impute", "effort": "quick"})
    try:
        _ingest_here(IngestRequest(stored=stored, upload=upload, limits=LIMITS, spec=spec, profile=True))
    finally:
        stored.unlink(missing_ok=True)


def _predict_file(data: bytes, *, model: LoadedModel) -> None:
    for on_error, keep in ((OnError.REFUSE, Keep.NONE), (OnError.NULL, Keep.OTHERS)):
        read_part(model, data, LIMITS, PartOptions(on_error=on_error, keep=keep, typed=True))


def _read_npy(data: bytes, *, folder: Path, model: LoadedModel) -> None:
    options = PartOptions(on_error=OnError.NULL)
    matrix_part(model, read_npy(data), options)
    path = folder / "rows.npy"
    path.write_bytes(data)
    rows = NpyRows(path)
    for first in range(0, rows.shape[0], 2):
        matrix_part(model, rows.part(first, 2), options, first)


def _artefact(data: bytes) -> None:
    """Import it; whatever is imported must load."""
    check_artefact(data, max_basis_size=MAX_BASIS_SIZE)
    prepare_model(artefact.load(data))


def _stored(data: bytes) -> None:
    """Load an artefact from a store that was damaged."""
    check_header(data)
    prepare_model(artefact.load(data))


def _spec(data: bytes) -> None:
    check_depth(data, 64)
    read_spec(spec_of(data), max_basis_size=MAX_BASIS_SIZE)


def _train_json(data: bytes, *, folder: Path) -> None:
    asked = read_request(data, 64, "columns", "rows")
    columns = asked.columns
    table = from_rows(rows_of(asked.rows)) if not isinstance(columns, bytes) and not columns else None
    if table is None:
        table = from_columns(columns_of(columns))  # type: ignore[arg-type]  # one of the two is given
    stored = folder / "stored"
    try:
        ingest_table(
            table,
            IngestRequest(
                stored=stored, limits=LIMITS, spec=SpecBody.model_validate({"missing": "impute"}), profile=True
            ),
        )
    finally:
        stored.unlink(missing_ok=True)


def _predict_json(data: bytes, *, model: LoadedModel) -> None:
    check_depth(data, 64)
    asked = decode(data, PredictRequest)
    options = _options(asked)
    decode_any(data)
    if options.on_error is OnError.REFUSE:
        _decode_rows(model.rows, asked)
    else:
        _decode_tolerantly(model.rows, asked)


def _infer(data: bytes, *, model: LoadedModel) -> None:
    """Read a request of `/v2`; its first two bytes are the length of the JSON, before which they stand."""
    length = min(struct.unpack_from("<H", data)[0], len(data) - 2) if len(data) >= 2 else 0
    body = data[2:]
    asked = inference._decoded(body[:length])
    tensors = read_tensors(asked.inputs, body[length:])
    if tensors:
        to_inputs(tensors, model.schema, model.rows)


def _infer_seeds() -> list[bytes]:
    rows = {"name": "x", "shape": [2], "datatype": "FP64", "data": [0.5, 1.5]}
    kinds = {"name": "kind", "shape": [2, 1], "datatype": "BYTES", "data": [["low"], ["high"]]}
    plain = orjson.dumps(
        {"id": "1", "inputs": [rows, kinds], "outputs": [{"name": "mean"}], "parameters": {"interval": 0.5}}
    )
    texts = struct.pack("<I3sI4s", 3, b"low", 4, b"high")
    head = orjson.dumps(
        {
            "inputs": [
                {"name": "x", "shape": [2], "datatype": "INT8", "parameters": {"binary_data_size": 2}},
                {"name": "kind", "shape": [2], "datatype": "BYTES", "parameters": {"binary_data_size": len(texts)}},
            ]
        }
    )
    return [struct.pack("<H", len(plain)) + plain, struct.pack("<H", len(head)) + head + b"\1\2" + texts]


def _json_tables() -> list[bytes]:
    rows = [{"x": 0.5 * i, "k": "ab"[i % 2], "d": f"2011-01-0{i + 1}", "y": float(i * i)} for i in range(8)]
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    return [orjson.dumps({"rows": rows}), orjson.dumps({"columns": columns})]


def _predict_seeds() -> list[bytes]:
    return [
        b'{"model": "m", "rows": [{"x": 0.5, "kind": "low"}, {"x": null, "kind": "high"}], "interval": [0.5, 0.9]}',
        b'{"model": "m", "rows": [[0.5, "low"], [1.5, "high"]], "quantiles": [0.1], "on_error": "null"}',
        b'{"model": "m", "columns": {"x": [0.5, 2], "kind": ["low", "high"]}, "include": ["median"]}',
    ]


def _spec_seeds() -> list[bytes]:
    every = {name: field.get_default(call_default_factory=True) for name, field in SpecBody.model_fields.items()}
    whole = SpecBody(**every).model_dump(mode="json")
    chosen = {
        "model": "cars", "target": "y", "features": ["x"], "basis_size": "auto", "adapt": {"rounds": 2, "steps": 3},
        "hyperparameters": {
            "signal_variance": 1.0, "bias_variance": 0.0, "noise_variance": 0.1, "lengthscales": {"x": 1},
        },
        "columns": {"x": "number"}, "missing_values": [-200, "?"], "bounds": {"rows": [0]}, "refine": True, "sheet": 2,
        "mean_rows": "all", "decimal": ",", "max_levels": 7, "holdout": 0.2, "groups": "g", "order": "t", "seed": 1,
    }  # fmt: skip
    return [orjson.dumps(whole), orjson.dumps(chosen)]


def targets(folder: Path, stored: Sequence[bytes]) -> dict[str, Target]:
    """Return all targets. folder: for their files; stored: what `artefacts` made."""
    loaded = cache(lambda place: prepare_model(artefact.load(stored[place])))

    def with_model(run: Callable[..., object], place: int = -2, **more: Any) -> Callable[[bytes], object]:
        return lambda data: run(data, model=loaded(place), **more)

    table = partial(_ingest, folder=folder)
    text = ("comma", "semicolon and decimal comma", "CRLF and byte order mark", "UTF-16", "Latin-1", "gzip", "zstd")
    return {
        "csv": Target(run=table, mutation="table", seeds=lambda: _files(*text)),
        "jsonl": Target(run=table, mutation="table", seeds=lambda: _files("JSON Lines", "JSON Lines, zstd")),
        "xlsx": Target(run=table, mutation="table", seeds=lambda: _files("Excel")),
        "parquet": Target(run=table, mutation="table", seeds=_parquet),
        "arrow": Target(run=table, mutation="table", seeds=_arrow),
        "predict-file": Target(run=with_model(_predict_file), mutation="table", seeds=_predicted_files),
        "npy": Target(run=with_model(_read_npy, -1, folder=folder), mutation="bytes", seeds=_npy),
        "import": Target(run=_artefact, mutation="safetensors", seeds=lambda: stored),
        "load": Target(run=_stored, mutation="safetensors", seeds=lambda: stored),
        "spec": Target(run=_spec, mutation="json", seeds=_spec_seeds),
        "train-json": Target(run=partial(_train_json, folder=folder), mutation="json", seeds=_json_tables),
        "predict-json": Target(run=with_model(_predict_json), mutation="json", seeds=_predict_seeds),
        "tensors": Target(run=with_model(_infer), mutation="bytes", seeds=_infer_seeds),
    }
