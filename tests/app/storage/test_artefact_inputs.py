"""Transforms of the inputs in artefacts: bit for bit back, in a format of their own, and refused by their tensor."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import orjson
import pytest
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors

from app.errors import BrokenArtefactError, InvalidRequestError
from app.services.artefact_import import check_artefact
from app.services.predict.loaded_model import prepare_model
from app.services.predict.options import PredictOptions
from app.services.predict.run import answer_arrays
from app.storage.artefact import ModelArtefact, load, save
from app.storage.artefact_document import DIGEST, text_of
from core.arrays import FloatArray
from core.input_transform import InputTransform
from core.predict.compact import served
from core.predict.model import ModelPredictor
from tests.app.storage.transformed_models import SPECS, encoded, queries, transformed

TENSOR, OF_NOISE = "input_transform", "noise.input_transform"
Tensors = dict[str, Any]


def changed(data: bytes, change: Callable[[Tensors], object], version: int | None = None) -> bytes:
    """The artefact with other tensors, as its header says, perhaps of another format."""
    tensors = dict(load_tensors(data))
    document = orjson.loads(text_of(data))
    del document[DIGEST]
    change(tensors)
    document["shapes"] = {name: list(array.shape) for name, array in tensors.items()}
    if version is not None:
        document["format_version"] = version
    return save_tensors(tensors, metadata={"pursuit": orjson.dumps(document).decode()})


def version_of(data: bytes) -> int:
    found: int = orjson.loads(text_of(data))["format_version"]
    return found


def answers(model: ModelArtefact) -> dict[str, FloatArray]:
    mean_only = model.kind == "mean"
    return answer_arrays(prepare_model(model), encoded(model, queries()), PredictOptions(mean_only=mean_only))


@pytest.mark.parametrize("name", SPECS)
def test_a_transform_comes_back_bit_for_bit_older_readers_refuse_it(name: str) -> None:
    """A reader of an earlier format would leave it out, and predict for other inputs."""
    before = transformed(name)
    data = save(before)
    after = load(data)
    assert (version_of(data), save(after)) == (8, data)
    one, two = before.model(), after.model()
    assert one.posterior.input_transform.columns.tolist() == [0, 1]
    pairs = [(one.posterior, two.posterior)]
    assert (one.mean is not None, one.near is not None) == (name == "mean-rows", name == "near")
    assert (one.noise is not None) is (name == "noise")
    if one.mean is not None and two.mean is not None:
        pairs.append((one.mean, two.mean))
    if one.noise is not None and two.noise is not None:
        pairs.append((one.noise.posterior, two.noise.posterior))
    assert len(pairs) == 1 + (name in ("mean-rows", "noise"))
    for ours, theirs in pairs:
        assert ours.input_transform.table.tobytes() == theirs.input_transform.table.tobytes()
    expected = answers(before)
    for output, values in answers(after).items():
        assert np.isfinite(values).all()
        assert values.tobytes() == expected[output].tobytes()
    assert check_artefact(data, max_basis_size=500).posterior.basis.shape == before.posterior.basis.shape


def test_each_posterior_has_its_own_transform() -> None:
    """One of the noise alone is stored, and is of that format, too."""
    model = transformed("noise")
    assert model.noise is not None
    posterior = replace(served(model.posterior), input_transform=InputTransform())
    data = save(replace(model, posterior=posterior))
    assert (version_of(data), TENSOR in load_tensors(data), OF_NOISE in load_tensors(data)) == (8, False, True)
    after = load(data)
    assert after.noise is not None
    assert not len(served(after.posterior).input_transform.columns)
    assert after.noise.posterior.input_transform.columns.tolist() == [0, 1]
    noise = replace(model.noise, posterior=replace(model.noise.posterior, input_transform=InputTransform()))
    assert version_of(save(replace(model, posterior=posterior, noise=noise))) == 3, "a kernel that is not gaussian"


def test_targets_of_which_one_has_a_transform() -> None:
    model = transformed("sparse")
    plain = replace(model, posterior=replace(served(model.posterior), input_transform=InputTransform()))
    data = save(replace(model, others=(plain,)))
    after = load(data)
    assert version_of(data) == 7
    assert after.others is not None
    assert [len(served(each.posterior).input_transform.columns) for each in (after, *after.others)] == [2, 0]
    assert save(after) == data


@pytest.mark.parametrize("version", [2, 3, 4, 5, 6])
@pytest.mark.parametrize("name", ["sparse", "near", "mean-rows", "gaps"])
def test_a_transform_goes_with_its_format(name: str, version: int) -> None:
    data = changed(save(transformed(name)), lambda _: None, version)
    with pytest.raises(BrokenArtefactError, match=f"format version {version} and the tensor input_transform"):
        load(data)


@pytest.mark.parametrize("name", ["sparse", "near"])
def test_the_format_goes_with_a_transform(name: str) -> None:
    data = changed(save(transformed(name)), lambda tensors: tensors.pop(TENSOR))
    with pytest.raises(BrokenArtefactError, match="format version 8 without a tensor input_transform"):
        load(data)


def put(tensor: str, row: int, column: int, value: float) -> Callable[[Tensors], None]:
    def change(tensors: Tensors) -> None:
        tensors[tensor] = tensors[tensor].copy()
        tensors[tensor][row, column] = value

    return change


def shaped(tensor: str, shape: tuple[int, ...]) -> Callable[[Tensors], None]:
    return lambda tensors: tensors.update({tensor: np.full(shape, 0.5)})


BROKEN: dict[str, tuple[Callable[[str], Callable[[Tensors], object]], str]] = {
    "no centre": (lambda name: put(name, 0, 0, np.nan), "not finite"),
    "an infinite centre": (lambda name: put(name, 0, 0, np.inf), "not finite"),
    "no unit": (lambda name: put(name, 1, 0, 0.0), "units above zero"),
    "a negative unit": (lambda name: put(name, 1, 1, -1.0), "units above zero"),
    "power 0": (lambda name: put(name, 2, 0, 0.0), "powers from 0.001 to 1.999"),
    "power 2": (lambda name: put(name, 2, 1, 2.0), "powers from 0.001 to 1.999"),
    "a power of a category": (lambda name: put(name, 2, 2, 0.5), "expected power 1 for columns of categories"),
    "rows missing": (lambda name: shaped(name, (2, 4)), "shape"),
    "columns missing": (lambda name: shaped(name, (3, 3)), "expected the columns of the basis"),
    "a column for all": (lambda name: shaped(name, (3, 1)), "expected the columns of the basis"),
    "no column": (lambda name: shaped(name, (3, 0)), "no empty dimension"),
    "one dimension": (lambda name: shaped(name, (12,)), "shape"),
    "another type": (
        lambda name: lambda tensors: tensors.update({name: tensors[name].astype(np.float32)}),
        "expected F64",
    ),
}


@pytest.mark.parametrize("tensor", [TENSOR, OF_NOISE])
@pytest.mark.parametrize("name", BROKEN)
def test_a_transform_that_is_none_is_refused_by_its_tensor(name: str, tensor: str) -> None:
    change, words = BROKEN[name]
    data = changed(save(transformed("noise")), change(tensor))
    with pytest.raises(InvalidRequestError, match=words) as refused:
        check_artefact(data, max_basis_size=500)
    assert refused.value.message.removeprefix("tensor ").startswith(f"{tensor}")


@pytest.mark.parametrize("name", ["mean-rows", "sparse"])
def test_a_mean_has_no_transform_of_its_own(name: str) -> None:
    data = changed(
        save(transformed(name)), lambda tensors: tensors.update({"mean.input_transform": tensors[TENSOR].copy()})
    )
    with pytest.raises(InvalidRequestError, match=r"tensors under mean.: expected basis and alpha"):
        check_artefact(data, max_basis_size=500)


def test_powers_beyond_doubles_end_before_they_are_no_numbers() -> None:
    """The model's own basis vectors are asked: of columns that say nothing, however far they are."""

    def change(tensors: Tensors) -> None:
        tensors[TENSOR] = tensors[TENSOR].copy()
        tensors[TENSOR][1:, :2] = [[5e-324] * 2, [1.9] * 2]
        tensors["input_scale"] = np.full(4, np.inf)

    data = changed(save(transformed("sparse")), change)
    check_artefact(data, max_basis_size=500)
    model = load(data).model()
    assert np.isfinite(ModelPredictor(model).predict(model.posterior.basis).centre).all()
