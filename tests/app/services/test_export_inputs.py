"""app/services/export: models whose inputs are transformed predict what the service does, far outside too."""

import zipfile
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.services.export.forms import Form, export
from app.services.export.graph import Graph
from app.services.export.onnx_process import transformed_inputs
from app.services.predict.loaded_model import prepare_model
from app.services.predict.options import PredictOptions
from app.services.predict.run import answer_arrays
from app.storage.artefact import ModelArtefact, save
from core.arrays import FloatArray
from core.input_transform import POWERS, InputTransform
from core.predict.compact import served
from tests.app.routes.exported import Arrays, by_numpy, by_onnx, differences
from tests.app.services.test_export import run
from tests.app.storage.transformed_models import SPECS, encoded, queries, table, transformed

CLOSE = 1e-6
FAST = ("sparse", "noise", "mean-rows", "near", "gaps")


def by_service(model: ModelArtefact, columns: dict[str, list[Any]]) -> Arrays:
    mean_only = model.kind == "mean"
    found = answer_arrays(prepare_model(model), encoded(model, columns), PredictOptions(mean_only=mean_only))
    return {name: found[name] for name in ("mean", "std", "lower", "upper") if name in found}


def exported(model: ModelArtefact, form: Form) -> bytes:
    return export(save(model), form, label="m@1")


def script(model: ModelArtefact) -> str:
    return zipfile.ZipFile(BytesIO(exported(model, Form.NUMPY))).read("predict.py").decode()


def check(model: ModelArtefact, columns: dict[str, list[Any]], folder: Path) -> None:
    spread = float(np.std(table(200, 0)["y"]))
    expected = by_service(model, columns)
    assert all(np.isfinite(values).all() for values in expected.values())
    onnx = by_onnx(exported(model, Form.ONNX), columns)
    assert max(differences(onnx, expected, spread).values()) < CLOSE
    with np.errstate(over="ignore"):  # of numbers of 1e300 in the unit of a column
        numpy = by_numpy(exported(model, Form.NUMPY), columns, folder)
    assert max(differences(numpy, expected, spread).values()) < CLOSE


@pytest.mark.parametrize(
    "name", [name if name in FAST else pytest.param(name, marks=pytest.mark.slow) for name in SPECS]
)
def test_exports_predict_what_the_service_does(name: str, tmp_path: Path) -> None:
    columns = queries()
    if name == "gaps":
        columns["b"] = [None if row % 9 == 2 else cell for row, cell in enumerate(columns["b"])]
    check(transformed(name), columns, tmp_path)


@pytest.mark.parametrize("of", ["posterior", "noise"])
def test_one_posterior_is_transformed_and_the_other_not(of: str, tmp_path: Path) -> None:
    check(one_alone(of), queries(), tmp_path)


def one_alone(of: str) -> ModelArtefact:
    """A model of varying noise, one posterior of which takes the inputs as they are."""
    model, none = transformed("noise"), InputTransform()
    assert model.noise is not None
    if of == "noise":
        return replace(model, posterior=replace(served(model.posterior), input_transform=none))
    noise = replace(model.noise, posterior=replace(model.noise.posterior, input_transform=none))
    return replace(model, noise=noise)


def test_without_a_transform_the_script_has_no_line_of_it() -> None:
    model = transformed("sparse")
    plain = replace(model, posterior=replace(served(model.posterior), input_transform=InputTransform()))
    assert "power" not in script(plain)
    assert "z = scaled(x)\n" in script(plain)
    assert "z = scaled(powered(x))\n" in script(model)
    for of, once in (("posterior", "scaled(powered(x))"), ("noise", 'scaled(powered(x, "noise_"), "noise_")')):
        text = script(one_alone(of))
        assert (text.count("def powered"), text.count("(powered(x"), once in text) == (1, 1, True)


@pytest.mark.parametrize("power", [POWERS[0], 0.3, 0.999, 1.001, 1.7, POWERS[1]])
def test_powers_in_a_graph_keep_their_digits(power: float) -> None:
    """Powers of small and large numbers agree on both sides of the centre, and past all others stay in order."""
    near = np.concatenate([[0.0], np.logspace(-12, 12, 97)])
    cells = np.concatenate([-near[::-1], near])
    transform = InputTransform(table=np.array([[0.0], [2.5], [power]]))
    np.testing.assert_allclose(psi(transform, cells), transform.forward(cells[:, None])[:, 0], rtol=2e-13)
    far = psi(transform, np.array([-1.7e308, -1e300, -1e200, 0.0, 1e200, 1e300, 1.7e308]))
    assert np.isfinite(far).all()
    assert (np.diff(far) >= 0.0).all()


def psi(transform: InputTransform, cells: FloatArray) -> FloatArray:
    graph = Graph()
    graph.output("psi", transformed_inputs(transform, graph.input("x", "float64")))
    return np.array(run(graph, x=cells.tolist())["psi"])
