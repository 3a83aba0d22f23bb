"""Downloaded models of other forms, and what they predict."""

import importlib.util
import io
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray

from tests.app.routes.service import Service

Columns = Mapping[str, Sequence[Any]]
Arrays = dict[str, NDArray[np.float64]]
TYPES = {"tensor(double)": np.float64, "tensor(int64)": np.int64, "tensor(string)": np.object_}


def download(service: Service, model: str, form: str, **query: Any) -> bytes:
    """The newest version of a model in a form."""
    answer = service.client.get(f"/models/{model}/versions/1/artefact", params={"format": form, **query})
    assert answer.status_code == 200, answer.text
    return answer.content


def by_onnx(data: bytes, columns: Columns, dates: Sequence[str] = ()) -> Arrays:
    """Check an ONNX model with the package, run it with onnxruntime."""
    onnx.checker.check_model(onnx.load_from_string(data), full_check=True)
    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    feeds = {each.name: cells_of(columns[each.name], each.type, each.name in dates) for each in session.get_inputs()}
    names = [each.name for each in session.get_outputs()]
    return {name: found[:, 0] for name, found in zip(names, session.run(names, feeds), strict=True)}


def cells_of(cells: Sequence[Any], kind: str, date: bool = False) -> NDArray[Any]:
    """Cells as the inputs (rows, 1) of an ONNX model."""
    if date:
        return np.array(cells, "datetime64[us]").astype(np.int64)[:, None]
    if kind == "tensor(string)":
        cells = ["" if cell is None else cell for cell in cells]
    elif kind == "tensor(int64)":
        cells = [-(2**63) if cell is None else cell for cell in cells]
    return np.array(cells, TYPES[kind])[:, None]


def predictor(data: bytes, folder: Path) -> Callable[[Columns], Arrays]:
    """Import the predictor file; return its function."""
    zipfile.ZipFile(io.BytesIO(data)).extractall(folder)
    spec = importlib.util.spec_from_file_location(f"predict_{folder.name}", folder / "predict.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found: Callable[[Columns], Arrays] = module.predict
    return found


def by_numpy(data: bytes, columns: Columns, folder: Path) -> Arrays:
    """Import the predictor file, call it."""
    return predictor(data, folder)(columns)


def by_server(service: Service, model: str, columns: Columns, **more: Any) -> Arrays:
    """POST /predict; NaN in rows that are refused."""
    body = {"model": model, "columns": columns, "on_error": "null", **more}
    answer = service.client.post("/predict", json=body)
    assert answer.status_code == 200, answer.text
    found = answer.json()
    names = [name for name in ("mean", "std", "lower", "upper") if name in found]
    return {name: np.array(found[name], np.float64) for name in names}


def differences(found: Arrays, expected: Arrays, spread: float) -> dict[str, float]:
    """The largest difference of each output, in units of the target's deviation; infinite where one alone is NaN."""
    assert list(found) == list(expected)
    off = {}
    for name, values in expected.items():
        same = bool((np.isnan(found[name]) == np.isnan(values)).all())
        off[name] = float(np.nanmax(np.abs(found[name] - values)) / spread) if same else float("inf")
    return off
