"""Rows that values of missing cells are taken from, in an artefact; and models of releases that filled them in."""

import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors

from app.errors import BrokenArtefactError, InvalidRequestError
from app.services.predict.loaded_model import load_model
from app.services.predict.options import PredictOptions
from app.services.predict.run import answer_arrays
from app.storage.artefact import ModelArtefact, load, save
from app.tables import fit_schema, from_columns
from core.data import Dataset
from core.spec import Method, TrainSpec
from core.train.run import train

FILLED = Path(__file__).with_name("imputed.safetensors")
"""Made by the last commit that filled missing cells in (42b06f8, format 2), of 200 rows y = a + 2 b + [k is x] of which
20 miss b and 9 miss k, with `missing: impute`, {"basis_size": 12, "holdout": 0, "calibrate": null}; FILLED_ANSWER is
what it predicted for FILLED_ROWS."""
FILLED_ROWS: list[list[Any]] = [[0.1, None, "x"], [0.1, 0.2, None], [None, 0.3, "y"], [0.3, 0.3, "y"]]
FILLED_ANSWER = {
    "mean": [1.0719221634692324, 1.0541179656754363, 0.6996695325620438, 0.8753514011440195],
    "std": [0.3942929540050839, 0.4113834049073731, 0.3864709076461748, 0.38677555766110594],
}


def gaps() -> ModelArtefact:
    """A model of two columns, of which either may be missing."""
    chance = np.random.default_rng(0)
    a, b = chance.uniform(-1.0, 1.0, (2, 60))
    y = a + b + 0.1 * chance.normal(size=60)
    cells = {"a": a.tolist(), "b": b.tolist(), "y": y.tolist()}
    schema, matrix = fit_schema(from_columns(cells), missing="impute")
    spec = TrainSpec(adaptation=None, basis_size=12, method=Method.RAND)
    result = train(Dataset(inputs=matrix.inputs, targets=matrix.targets), spec)
    return ModelArtefact(
        posterior=result.stored,
        calibration=result.model.calibration,
        transform=result.model.transform,
        noise=result.model.noise,
        donors=matrix.inputs[:40],
        shifts=np.array([0.0, 0.25]),
        schema=schema.to_json(),
        spec={},
        hyperparameters={},
        basis_columns=("a", "b"),
        basis_rows=tuple(result.selection.indices.tolist()),
        gains=(None,) * 12,
        report={},
    )


@pytest.fixture(scope="module")
def stored() -> bytes:
    return save(gaps())


def header(data: bytes) -> tuple[dict[str, Any], bytes]:
    (length,) = struct.unpack_from("<Q", data)
    return orjson.loads(orjson.loads(data[8 : 8 + length])["__metadata__"]["pursuit"]), data[8 + length :]


def test_rows_and_shifts_come_back_bit_for_bit(stored: bytes) -> None:
    before, after = gaps(), load(stored)
    assert header(stored)[0]["format_version"] == 5
    assert before.donors is not None
    assert after.donors is not None
    assert after.shifts is not None
    assert after.donors.tobytes() == np.ascontiguousarray(before.donors).tobytes()
    assert after.shifts.tolist() == [0.0, 0.25]
    assert save(after) == stored
    rows = np.array([[0.1, np.nan], [np.nan, np.nan], [0.1, 0.2]])
    answers = [answer_arrays(load_model(data), rows) for data in (save(before), save(after))]
    for name in ("mean", "std", "lower", "upper"):
        assert answers[0][name].tobytes() == answers[1][name].tobytes()


def test_shifts_are_added_where_their_feature_is_missing() -> None:
    shifted, plain = gaps(), replace(gaps(), shifts=np.zeros(2))
    rows = np.array([[0.1, np.nan], [np.nan, np.nan], [np.nan, 0.2], [0.1, 0.2]])
    one, two = (answer_arrays(load_model(save(model)), rows)["mean"] for model in (shifted, plain))
    np.testing.assert_allclose(one - two, [0.25, 0.25, 0.0, 0.0], atol=1e-12)


BROKEN: dict[str, tuple[dict[str, Any], str]] = {
    "no rows": ({"missing.rows": None, "missing.shifts": None}, "columns take missing cells, and it has no rows"),
    "no shifts": ({"missing.shifts": None}, "version 5 and tensors under missing."),
    "rows of other columns": ({"missing.rows": np.ones((4, 3))}, "missing.rows: expected rows as those of the basis"),
    "no row at all": ({"missing.rows": np.ones((0, 2))}, "missing.rows: expected rows as those of the basis"),
    "shifts of other features": ({"missing.shifts": np.ones(3)}, "expected a shift for each of the 2 features"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_does_not_fit_is_named(stored: bytes, name: str) -> None:
    changes, words = BROKEN[name]
    document, _ = header(stored)
    tensors = {key: array for key, array in {**load_tensors(stored), **changes}.items() if array is not None}
    document["shapes"] = {key: list(array.shape) for key, array in tensors.items()}
    del document["sha256"]
    with pytest.raises(BrokenArtefactError, match=words):
        load_model(save_tensors(tensors, metadata={"pursuit": orjson.dumps(document).decode()}))


def test_columns_that_take_missing_cells_need_rows_to_take_values_from() -> None:
    with pytest.raises(BrokenArtefactError, match="columns take missing cells, and it has no rows"):
        load_model(save(replace(gaps(), donors=None, shifts=None)))


def test_a_version_that_fills_cells_in_predicts_as_it_did() -> None:
    model = load_model(FILLED.read_bytes())
    assert model.integrated is None
    rows = model.schema.encode_rows(FILLED_ROWS)
    found = answer_arrays(model, rows)
    for name, values in FILLED_ANSWER.items():
        np.testing.assert_allclose(found[name], values, rtol=1e-9, err_msg=name)
    asked = PredictOptions(include=frozenset({"imputed"}))
    with pytest.raises(InvalidRequestError, match="trained by a release that fills missing cells in unmarked"):
        answer_arrays(model, rows, asked)  # a was never missing, so nothing marks where it is
