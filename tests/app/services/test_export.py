"""app/services/export: what a graph is made of, beside the models of tests/app/routes/test_exports.py."""

import runpy
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

from app.errors import InvalidRequestError
from app.services.export import numpy_pieces as pieces
from app.services.export.graph import Graph
from app.services.export.onnx_inputs import level_table, ports
from app.services.export.onnx_target import GraphTarget, expm1, log1p
from app.services.export.target import TargetNumbers
from app.tables import Feature, Kind, Schema
from app.tables.schema.schema import Unseen
from core.predict.calibration import Calibration
from core.predict.distribution import PredictiveDistribution
from core.predict.transforms import transform_of
from core.spec import TargetTransform


def run(graph: Graph, **feeds: list[float]) -> dict[str, list[float]]:
    data = graph.encode(name="test", text="", metadata={})
    model = onnx.load_from_string(data)
    onnx.checker.check_model(model, full_check=True)
    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    names = [each.name for each in session.get_outputs()]
    found = session.run(names, {name: np.array(cells)[:, None] for name, cells in feeds.items()})
    return {name: array[:, 0].tolist() for name, array in zip(names, found, strict=True)}


def test_arithmetic_with_arrays_on_either_side_and_a_loop() -> None:
    graph = Graph()
    x = graph.input("x", "float64")
    graph.output("a", np.array([[2.0]]) * x - 1.0)
    graph.output("b", np.array([[2.0]]) - 1.0 / x)
    graph.output("c", graph.repeat(3, [x, x], lambda number, held: (held[0] * 2.0, held[1] + number.to_float()))[0])
    graph.output("d", graph.repeat(3, [x], lambda number, held: (held[0] + number.to_float(),))[0])
    assert run(graph, x=[1.0, 4.0]) == {"a": [1.0, 7.0], "b": [1.0, 1.75], "c": [8.0, 32.0], "d": [4.0, 7.0]}


def test_small_numbers_keep_their_digits() -> None:
    cells = [0.0, 1e-300, -1e-17, 1e-9, -3e-5, 0.3, -0.9, 5.0]
    graph = Graph()
    x = graph.input("x", "float64")
    graph.output("expm1", expm1(x))
    graph.output("log1p", log1p(x))
    found = run(graph, x=cells)
    np.testing.assert_allclose(found["expm1"], np.expm1(cells), rtol=1e-14)
    np.testing.assert_allclose(found["log1p"], np.log1p(cells), rtol=1e-14)


def moments_of_file(numbers: TargetNumbers, folder: Path) -> Any:
    """The moments of a predictor file of logarithms."""
    transform = numbers.transform
    held = {name: getattr(transform, name) for name in ("least_mean", "greatest_mean", "widest")}
    text = pieces.WITHIN.format(lowest=transform.lowest, highest="np.inf")
    text += pieces.MOMENTS_LOG.format(less=int(transform.kind is TargetTransform.LOG1P), **held)
    path = folder / "moments.py"
    path.write_text(f"import numpy as np\n{text}", encoding="utf-8")
    return runpy.run_path(str(path))["moments"]


@pytest.mark.parametrize("kind", [TargetTransform.LOG, TargetTransform.LOG1P, TargetTransform.YEO_JOHNSON])
def test_moments_of_rows_wider_than_all_targets(kind: TargetTransform, tmp_path: Path) -> None:
    """Neither the width that moments take nor the bounds of means are lost on the way to another runtime."""
    transform = transform_of(kind, np.exp(np.random.default_rng(0).normal(size=200)))
    centres, variances = np.array([0.0, 1.0, 4.0, 40.0]), np.array([0.5, 100.0, 900.0, 1.0])
    expected = PredictiveDistribution(centre=centres, variance=variances, transform=transform)
    assert expected.moments()[0][-1] == transform.greatest_mean
    graph, numbers = Graph(), TargetNumbers.of(transform, Calibration(), 0.95)
    centre, variance = graph.input("centre", "float64"), graph.input("variance", "float64")
    graph.output("mean_out", GraphTarget(numbers).mean(centre, variance))
    graph.output("std", GraphTarget(numbers).std(centre, variance))
    found = run(graph, centre=centres.tolist(), variance=variances.tolist())
    np.testing.assert_allclose(found["mean_out"], expected.moments()[0], rtol=1e-12)
    np.testing.assert_allclose(found["std"], expected.std(), rtol=1e-12)
    if kind is not TargetTransform.YEO_JOHNSON:
        by_file = moments_of_file(numbers, tmp_path)(centres, variances)
        np.testing.assert_allclose(by_file, expected.moments(), rtol=1e-12)


def test_inputs_are_called_as_no_output_is() -> None:
    schema = Schema(target="y", features=(Feature(name="mean", kind=Kind.NUMBER), Feature(name="x", kind=Kind.UNUSED)))
    assert [(port.name, port.column) for port in ports(schema)] == [("mean_input", "mean")]


def test_integers_that_onnx_cannot_hold_are_refused_by_name() -> None:
    schema = Schema(target="y", features=(Feature(name="id", kind=Kind.NUMBER, offset=2**63),))
    with pytest.raises(InvalidRequestError, match=r"'id' has integers past 2\^62"):
        ports(schema)


@pytest.mark.parametrize("unseen", Unseen)
def test_levels_in_other_spellings_and_those_that_are_not_known(unseen: Unseen) -> None:
    feature = Feature(name="kind", kind=Kind.CATEGORY, levels=("1", "2.0", "a"))
    places, table = level_table(feature, Schema(target="y", features=(feature,), unseen=unseen))
    assert places == {"1": 0, "1.0": 0, "2.0": 1, "2": 1, "a": 2, "": 3}
    np.testing.assert_array_equal(table[:3], np.eye(3))
    assert np.isnan(table[3]).all(), "a missing cell is refused"
    assert np.isnan(table[4]).all() == (unseen is Unseen.ERROR)
