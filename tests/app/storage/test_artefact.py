"""Artefacts: bit for bit back, and a clear refusal of everything else."""

import struct
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors

from app.errors import BrokenArtefactError
from app.storage.artefact import ModelArtefact, load, save
from app.storage.artefact_document import FORMAT_VERSION
from core.arrays import FloatArray
from core.data import Dataset
from core.errors import InvalidDataError
from core.hyperparameters import KernelFamily
from core.numeric.linalg import unpack_upper
from core.predict.compact import CompactPosterior, served
from core.predict.model import ModelPredictor
from core.predict.predictor import Predictor, moments
from core.sparse.posterior import SparsePosterior
from core.spec import Artefact, KernelChoice, Method, TrainSpec
from core.train.run import train


@cache
def artefact(
    seed: int = 0,
    constant: bool = False,
    kind: Artefact = Artefact.FULL,
    family: KernelFamily = KernelFamily.GAUSSIAN,
) -> ModelArtefact:
    chance = np.random.default_rng(seed)
    inputs = chance.normal(size=(60, 3)) * [1e-3, 1.0, 1e6] + [0.0, 5.0, 1e7]
    if constant:
        inputs[:, 1] = 4.0
    targets = np.sin(inputs[:, 0] * 1e3) + chance.normal(size=60) * 0.1
    spec = TrainSpec(
        adaptation=None,
        basis_size=12,
        method=Method.BATCH,
        seed=seed,
        artefact=kind,
        kernel=KernelChoice(family),
        calibrate=None,
    )
    result = train(Dataset(inputs=inputs, targets=targets), spec)
    return ModelArtefact(
        posterior=result.stored,
        schema={"target": "y", "features": []},
        spec={"seed": seed},
        hyperparameters={"lengthscales": {"é": 0.1 + 0.2}},
        basis_columns=("a", "b", "c"),
        basis_rows=tuple(result.selection.indices.tolist()),
        gains=(*result.selection.gains.tolist()[:-1], None),
        report={"warnings": ["naïve"], "nlpd": -1.0000000000000002},
    )


@pytest.fixture(scope="module")
def stored() -> bytes:
    return save(artefact())


@pytest.mark.parametrize("kind", [Artefact.FULL, Artefact.COMPACT])
@pytest.mark.parametrize("constant", [False, True])
def test_saved_and_loaded_it_predicts_bit_for_bit(constant: bool, kind: Artefact) -> None:
    before = artefact(constant=constant, kind=kind)
    after = load(save(before))
    assert before.kind == after.kind == kind
    inputs = np.random.default_rng(1).normal(size=(700, 3)) * [1e-3, 1.0, 1e6] + [0.0, 5.0, 1e7]
    one, two = moments(served(before.posterior), inputs), moments(served(after.posterior), inputs)
    assert one.mean.tobytes() == two.mean.tobytes()
    assert one.target_variance.tobytes() == two.target_variance.tobytes()


def document_of(data: bytes) -> dict[str, Any]:
    """The JSON document of an artefact, as it lies in the file, but for its digest, to make others of."""
    (length,) = struct.unpack_from("<Q", data)
    document: dict[str, Any] = orjson.loads(orjson.loads(data[8 : 8 + length])["__metadata__"]["pursuit"])
    document.pop("sha256", None)
    return document


@pytest.mark.parametrize("kind", list(Artefact))
@pytest.mark.parametrize("family", list(KernelFamily))
def test_every_kernel_comes_back_and_an_older_reader_refuses_it(kind: Artefact, family: KernelFamily) -> None:
    """A reader of format 2 knows the gaussian alone: it would predict other numbers, and say nothing."""
    before = artefact(kind=kind, family=family)
    data = save(before)
    after = load(data)
    assert before.kind == after.kind == kind
    assert after.posterior.kernel is family
    inputs = np.random.default_rng(1).normal(size=(70, 3)) * [1e-3, 1.0, 1e6] + [0.0, 5.0, 1e7]
    one, two = (Predictor(served(model.posterior)) for model in (before, after))
    assert one.mean(inputs).tobytes() == two.mean(inputs).tobytes()
    if kind is not Artefact.MEAN:
        assert one.moments(inputs).latent_variance.tobytes() == two.moments(inputs).latent_variance.tobytes()
    assert document_of(data)["format_version"] == (2 if family is KernelFamily.GAUSSIAN else 3)


@pytest.mark.parametrize("kind", [Artefact.FULL, Artefact.MEAN])
@pytest.mark.parametrize("family", [KernelFamily.GAUSSIAN, KernelFamily.MATERN32])
def test_a_mean_on_rows_of_its_own_comes_back_older_readers_refuse_it(kind: Artefact, family: KernelFamily) -> None:
    """A reader of format 3 would leave its tensors out, and predict the mean of the basis."""
    before = with_mean(artefact(kind=kind, family=family))
    data = save(before)
    after = load(data)
    assert save(after) == data
    assert (after.kind, after.mean_rows) == (kind, 25)
    assert len(after.posterior.basis) == 12
    inputs = np.random.default_rng(1).normal(size=(70, 3)) * [1e-3, 1.0, 1e6] + [0.0, 5.0, 1e7]
    one, two = (ModelPredictor(each.model()).mean(inputs) for each in (before, after))
    assert one.tobytes() == two.tobytes()
    assert (one != ModelPredictor(replace(before, mean=None).model()).mean(inputs)).all()
    assert document_of(data)["format_version"] == 4


def full(model: ModelArtefact) -> ModelArtefact:
    """A full process on 25 rows."""
    other = with_mean(model).mean
    assert other is not None
    return replace(model, posterior=other, near=np.random.default_rng(4).uniform(0.1, 1.0, 25))


@pytest.mark.parametrize("family", [KernelFamily.GAUSSIAN, KernelFamily.MATERN32])
def test_a_full_process_comes_back_older_readers_refuse_it(family: KernelFamily) -> None:
    before = full(artefact(family=family))
    data = save(before)
    after = load(data)
    assert save(after) == data
    assert (after.kind, after.mean_rows, document_of(data)["format_version"]) == (Artefact.FULL, 25, 6)
    inputs = np.random.default_rng(1).normal(size=(70, 3)) * [1e-3, 1.0, 1e6] + [0.0, 5.0, 1e7]
    one, two = (ModelPredictor(each.model()).predict(inputs) for each in (before, after))
    assert one.centre.tobytes() == two.centre.tobytes()
    assert one.variance.tobytes() == two.variance.tobytes()


@pytest.mark.parametrize(
    ("noise", "message"),
    [
        (np.zeros(25), "finite noise variances above zero"),
        (np.ones(24), "a number for each row"),
    ],
)
def test_noise_of_near_rows_that_cannot_be_is_refused(stored: bytes, noise: FloatArray, message: str) -> None:
    model = replace(full(load(stored)), near=noise)
    with pytest.raises(InvalidDataError, match=message):
        load(save(model)).model()


def test_near_rows_go_with_their_format(stored: bytes) -> None:
    with pytest.raises(BrokenArtefactError, match="format version 2 and the tensor near_noise"):
        load(changed(save(full(load(stored))), with_version(2)))
    with pytest.raises(BrokenArtefactError, match="format version 6 without the tensor near_noise"):
        load(changed(stored, with_version(6)))


def with_mean(model: ModelArtefact) -> ModelArtefact:
    """The same with a mean on 25 rows, beside the 12 of its basis."""
    random = np.random.default_rng(3)
    assert isinstance(model.posterior, SparsePosterior)
    own = model.posterior.without_variance()
    basis = random.normal(size=(25, 3)) * [1e-3, 1.0, 1e6] + [0.0, 5.0, 1e7]
    return replace(model, mean=replace(own, basis=basis, alpha=random.normal(size=25)))


@pytest.mark.parametrize(
    ("version", "mean", "message"),
    [(3, True, "format version 3 and tensors under mean"), (4, False, "format version 4 without tensors under mean")],
)
def test_a_mean_goes_with_its_format(stored: bytes, version: int, mean: bool, message: str) -> None:
    data = save(with_mean(load(stored))) if mean else stored
    with pytest.raises(BrokenArtefactError, match=message):
        load(changed(data, with_version(version)))


def test_a_mean_that_lacks_its_weights_is_refused(stored: bytes) -> None:
    model = with_mean(load(stored))
    assert model.mean is not None
    with pytest.raises(BrokenArtefactError, match="expected shape"):
        load(save_tensors_of(model, lambda arrays: arrays.update({"mean.alpha": arrays["mean.alpha"][:-1]})))
    with pytest.raises(BrokenArtefactError, match="basis and alpha, got basis"):
        load(save_tensors_of(model, lambda arrays: arrays.pop("mean.alpha")))


def save_tensors_of(model: ModelArtefact, change: Any) -> bytes:
    """An artefact whose tensors, and what its header says of them, were changed."""
    data = save(model)
    arrays, document = load_tensors(data), document_of(data)
    change(arrays)
    document["shapes"] = {name: list(array.shape) for name, array in arrays.items()}
    return save_tensors(arrays, metadata={"pursuit": orjson.dumps(document).decode()})


def test_a_mean_alone_comes_back_bit_for_bit() -> None:
    before = artefact(kind=Artefact.MEAN)
    after = load(save(before))
    assert before.kind == after.kind == Artefact.MEAN
    inputs = np.random.default_rng(1).normal(size=(700, 3))
    one, two = (Predictor(served(model.posterior)).mean(inputs) for model in (before, after))
    assert one.tobytes() == two.tobytes()
    full = served(artefact().posterior)
    assert one.tobytes() == moments(full, inputs).mean.tobytes()


def test_a_model_of_format_1_reads_to_the_same_bits() -> None:
    before = artefact()
    data = first_format(before)
    after = load(data)
    assert after.kind is Artefact.FULL
    for name, array in before.posterior.arrays().items():
        assert array.tobytes() == after.posterior.arrays()[name].tobytes()
    assert save(after) == save(before)


@pytest.mark.parametrize("kind", Artefact)
def test_everything_else_comes_back_too(kind: Artefact) -> None:
    before = artefact(kind=kind)
    after = load(save(before))
    for name in ("schema", "spec", "hyperparameters", "report", "basis_columns", "basis_rows", "gains"):
        assert getattr(after, name) == getattr(before, name)
    assert after.posterior.scalars() == before.posterior.scalars()


def test_the_same_artefact_is_the_same_bytes(stored: bytes) -> None:
    assert save(artefact.__wrapped__()) == stored  # of another training
    for kind in Artefact:
        data = save(artefact(kind=kind))
        assert save(load(data)) == data
    assert save(artefact(seed=1)) != stored


def test_any_language_can_read_it(stored: bytes) -> None:
    (length,) = struct.unpack_from("<Q", stored)
    header = orjson.loads(stored[8 : 8 + length])
    basis = header["basis"]
    assert basis["dtype"] == "F64"
    begin, end = basis["data_offsets"]
    read = np.frombuffer(stored[8 + length + begin : 8 + length + end]).reshape(basis["shape"])
    assert (read == load(stored).posterior.basis).all()


def changed(stored: bytes, change: Any) -> bytes:
    """The same file with another JSON document."""
    (length,) = struct.unpack_from("<Q", stored)
    header = orjson.loads(stored[8 : 8 + length])
    document = orjson.loads(header["__metadata__"]["pursuit"])
    change(header, document)
    if "pursuit" in header.get("__metadata__", {}):
        header["__metadata__"]["pursuit"] = orjson.dumps(document).decode()
    text = orjson.dumps(header)
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + stored[8 + length :]


def first_format(model: ModelArtefact) -> bytes:
    """Rewrite an artefact as the first release wrote it: R as a square; no kind, calibration, transform or noise."""
    assert isinstance(model.posterior, SparsePosterior)
    arrays = {name: np.array(array) for name, array in model.posterior.arrays().items()}
    arrays["R"] = unpack_upper(arrays["R"])
    document = document_of(save(model))
    document["format_version"] = 1
    for name in ("kind", "noise_scalars", "calibration", "transform"):
        del document[name]
    document["shapes"]["R"] = list(arrays["R"].shape)
    return save_tensors(arrays, metadata={"pursuit": orjson.dumps(document).decode()})


@pytest.mark.parametrize(("offset", "version"), [(None, 2), ("9007199254740992", 3)])
def test_inputs_less_an_offset_are_of_a_newer_format(stored: bytes, offset: str | None, version: int) -> None:
    """A reader of format 2 knows no offset: it would predict for other inputs, and say nothing."""
    model = load(stored)
    features = [{"name": "x", "kind": "number", **({} if offset is None else {"offset": offset})}]
    data = save(replace(model, schema={**model.schema, "features": features}))
    assert document_of(data)["format_version"] == version
    assert load(data).schema["features"] == features


def with_version(number: object) -> Any:
    return lambda _, document: document.update(format_version=number)


BROKEN: dict[str, tuple[Any, str]] = {
    "newer": (with_version(FORMAT_VERSION + 1), "format version 9; this server reads 1 to 8"),
    "no version": (with_version(None), "format version None"),
    "no kind": (lambda _, document: document.pop("kind"), "kind None, not one of full, compact, mean"),
    "other kind": (lambda _, document: document.update(kind=["full"]), "not one of full, compact, mean"),
    "mean kind": (lambda _, document: document.update(kind="mean"), "kind 'mean', its arrays are those of 'full'"),
    "compact kind": (lambda _, document: document.update(kind="compact"), "missing: directions"),
    "older": (with_version(1), "tensor R: expected a square in format 1"),
    "no report": (lambda _, document: document.pop("report"), "lacks report"),
    "not ours": (lambda header, _: header["__metadata__"].pop("pursuit"), "not an artefact of Pursuit"),
    "no metadata": (lambda header, _: header.pop("__metadata__"), "not an artefact of Pursuit"),
    "one tensor more": (lambda _, document: document["shapes"].pop("alpha"), "alpha"),
    "one tensor less": (lambda _, document: document["shapes"].update(beta=[3]), "beta"),
    "other shape": (lambda _, document: document["shapes"].update(alpha=[3]), "tensor alpha: expected shape"),
    "other type": (lambda header, _: header["alpha"].update(dtype="I64"), "expected float64, got int64"),
    "no scalar": (lambda _, document: document["scalars"].pop("noise_variance"), "do not make a model"),
    "null scalar": (lambda _, document: document["scalars"].update(noise_variance=None), "finite number"),
    "text scalar": (lambda _, document: document["scalars"].update(noise_variance="1"), "finite number"),
    "true scalar": (lambda _, document: document["scalars"].update(noise_variance=True), "finite number"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_does_not_fit_is_named(stored: bytes, name: str) -> None:
    change, words = BROKEN[name]
    with pytest.raises(BrokenArtefactError, match=words):
        load(changed(stored, change))


def test_numbers_that_are_not_finite_are_named() -> None:
    before = artefact()
    arrays: dict[str, Any] = {name: np.array(array) for name, array in before.posterior.arrays().items()}
    for name in ("alpha", "R", "input_scale"):
        spoilt = {key: array.copy() for key, array in arrays.items()}
        spoilt[name].flat[0] = np.nan
        data = save(replace(before, posterior=SparsePosterior.restore(spoilt, before.posterior.scalars())))
        with pytest.raises(BrokenArtefactError, match=f"tensor {name} has a number that is not finite"):
            load(data)


def spoilt_compact(**changes: Any) -> bytes:
    """A compact model some of whose scalars or arrays are others."""
    model = artefact(kind=Artefact.COMPACT)
    data = save(model)
    (length,) = struct.unpack_from("<Q", data)
    document = orjson.loads(orjson.loads(data[8 : 8 + length])["__metadata__"]["pursuit"])
    del document["sha256"]
    arrays: dict[str, Any] = {name: np.array(array) for name, array in model.posterior.arrays().items()}
    for name, change in changes.items():
        if name in arrays:
            arrays[name] = change(arrays[name])
        else:
            document["scalars"][name] = change
    document["shapes"] = {name: list(array.shape) for name, array in arrays.items()}
    return save_tensors(arrays, metadata={"pursuit": orjson.dumps(document).decode()})


SPOILT: dict[str, tuple[dict[str, Any], str]] = {
    "whole numbers": ({"directions": lambda S: S.astype(np.int8)}, "expected float16 or float32 or float64, got int8"),
    "rows": ({"directions": lambda S: S[1:].copy()}, r"directions: expected shape \(12, r\)"),
    "columns": ({"directions": lambda S: np.zeros((12, 13), S.dtype)}, "r at most 12"),
    "one dimension": ({"directions": lambda S: S.ravel().copy()}, r"directions: expected shape \(12, r\)"),
    "not finite": ({"directions": lambda S: np.full_like(S, np.inf)}, "directions has a number that is not finite"),
    "rest": ({"rest": 1.5}, "expected rest from 0 to 1"),
    "jitter": ({"jitter": -1e-8}, "jitter not negative"),
    "bound": ({"std_bound": None}, "finite number"),
}


@pytest.mark.parametrize("name", SPOILT)
def test_a_compact_model_that_does_not_fit_is_named(name: str) -> None:
    assert isinstance(load(spoilt_compact()).posterior, CompactPosterior)
    changes, words = SPOILT[name]
    with pytest.raises(BrokenArtefactError, match=words):
        load(spoilt_compact(**changes))


@pytest.mark.parametrize(
    "data", [b"", b"short", b"\0" * 8, b"\xff" * 64, struct.pack("<Q", 2) + b"{}", b"a,y\n1,2\n" * 9]
)
def test_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(BrokenArtefactError):
        load(data)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_cut_or_altered_header_never_crashes(data: st.DataObject) -> None:
    whole = _stored_once()
    cut = data.draw(st.integers(0, len(whole) - 1))
    with pytest.raises(BrokenArtefactError):
        load(whole[:cut])
    place = data.draw(st.integers(0, 7))
    spoilt = bytearray(whole)
    spoilt[place] ^= 0x40
    with pytest.raises(BrokenArtefactError):
        load(bytes(spoilt))


_CACHE: list[bytes] = []


def _stored_once() -> bytes:
    if not _CACHE:
        _CACHE.append(save(artefact()))
    return _CACHE[0]
