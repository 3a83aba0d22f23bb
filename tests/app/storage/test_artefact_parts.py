"""Noise that varies, transform and calibration in an artefact: bit for bit back; and models of the first format."""

import struct
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors

from app.errors import BrokenArtefactError
from app.services.predict.loaded_model import load_model
from app.services.predict.options import PredictOptions
from app.services.predict.run import answer_arrays
from app.storage import catalog
from app.storage.artefact import ModelArtefact, load, save
from core.data import Dataset
from core.hyperparameters import Hyperparameters
from core.predict.model import ModelPredictor
from core.spec import Artefact, Intervals, Method, Precision, TargetTransform, TrainSpec
from core.train.run import train
from tests.app.routes.service import Service, running

FIRST = Path(__file__).with_name("format1.safetensors")
"""Made by the last commit that wrote format 1, of `waves()` in tests/app/routes/service.py with
{"adapt": false, "method": "rand", "basis_size": 8}; FIRST_ANSWER is what that commit predicted with it for FIRST_ROWS.
git archive bc5b26b, then there: train in `running(..)`, GET /models/waves/versions/1/artefact, POST /predict."""
FIRST_ROWS = [[0.5, "low"], [3.25, "high"], [20.0, "low"]]
FIRST_ANSWER = {
    "mean": [0.5206794870218145, 1.865289221133735, 0.9635534373737011],
    "std": [0.07083587337374046, 0.05516317600900215, 2.064334256340516],
    "lower": [0.38184372639584346, 1.757171382883247, -3.082467357105986],
    "upper": [0.6595152476477857, 1.9734070593842232, 5.009574231853388],
    "latent_std": [0.04616858636536098, 0.012521717045012414, 2.0636350790077462],
}


@cache
def rich(kind: Artefact, transform: TargetTransform = TargetTransform.LOG) -> ModelArtefact:
    """A model that has all there can be."""
    chance = np.random.default_rng(0)
    inputs = np.sort(chance.uniform(0.0, 6.0, (400, 1)), axis=0)
    spread = np.where(inputs[:, 0] < 3.0, 0.05, 0.6)
    targets = np.exp(np.sin(inputs[:, 0]) + spread * chance.normal(size=400))
    start = Hyperparameters(lengthscales=np.ones(1), signal_variance=1.0, bias_variance=1.0, noise_variance=0.4)
    spec = TrainSpec(
        adaptation=None,
        start=start,
        basis_size=30,
        method=Method.RAND,
        artefact=kind,
        tolerance=0.05,
        intervals=Intervals.ASYMMETRIC,
        target_transform=transform,
    )
    result = train(Dataset(inputs=inputs, targets=targets), spec)
    assert result.model.noise is not None
    return ModelArtefact(
        posterior=result.stored,
        noise=result.model.noise,
        calibration=result.model.calibration,
        transform=result.model.transform,
        schema={"target": "y", "features": []},
        spec={},
        hyperparameters={},
        basis_columns=("x",),
        basis_rows=(),
        gains=(),
        report={},
    )


KINDS = [
    (Artefact.FULL, TargetTransform.LOG),
    (Artefact.COMPACT, TargetTransform.LOG),
    (Artefact.FULL, TargetTransform.YEO_JOHNSON),
    (Artefact.COMPACT, TargetTransform.YEO_JOHNSON),
]


@pytest.mark.parametrize(("kind", "transform"), KINDS)
def test_all_parts_come_back_and_predict_bit_for_bit(kind: Artefact, transform: TargetTransform) -> None:
    before = rich(kind, transform)
    data = save(before)
    after = load(data)
    assert save(after) == data
    assert before.kind == after.kind == kind
    assert after.transform == before.transform
    assert after.transform.kind is transform
    one, two = before.calibration, after.calibration
    assert (one.latent_scale, one.noise_scale, one.intervals, one.rows) == (
        two.latent_scale,
        two.noise_scale,
        two.intervals,
        two.rows,
    )
    assert two.intervals is Intervals.ASYMMETRIC
    assert (one.probabilities.tobytes(), one.quantiles.tobytes()) == (
        two.probabilities.tobytes(),
        two.quantiles.tobytes(),
    )
    assert before.noise is not None
    assert after.noise is not None
    assert after.noise.posterior.scalars() == before.noise.posterior.scalars()
    assert (after.noise.lowest, after.noise.highest) == (before.noise.lowest, before.noise.highest)
    inputs = np.random.default_rng(1).uniform(-1.0, 9.0, (700, 1))
    old, new = (ModelPredictor(model.model()).predict(inputs) for model in (before, after))
    for first, second in ((old, new), (old.latent, new.latent)):
        for level in (0.5, 0.9, 0.95):
            assert [end.tobytes() for end in first.interval(level)] == [end.tobytes() for end in second.interval(level)]
        assert [part.tobytes() for part in first.moments()] == [part.tobytes() for part in second.moments()]
        assert first.quantile(0.31).tobytes() == second.quantile(0.31).tobytes()
    assert old.support.tobytes() == new.support.tobytes()


def changed(stored: bytes, change: Any) -> bytes:
    """The same file with another JSON document, its tensors as the document says."""
    (length,) = struct.unpack_from("<Q", stored)
    document = orjson.loads(orjson.loads(stored[8 : 8 + length])["__metadata__"]["pursuit"])
    del document["sha256"]  # what was changed is to be named
    arrays = load_tensors(stored)
    change(document, arrays)
    document["shapes"] = {name: list(array.shape) for name, array in arrays.items()}
    return save_tensors(arrays, metadata={"pursuit": orjson.dumps(document).decode()})


def without_noise(_: dict[str, Any], arrays: dict[str, Any]) -> None:
    for name in [name for name in arrays if name.startswith("noise.")]:
        del arrays[name]


BROKEN: dict[str, tuple[Any, str]] = {
    "no calibration": (lambda document, _: document.pop("calibration"), "lacks calibration"),
    "no transform": (lambda document, _: document.pop("transform"), "lacks transform"),
    "no noise scalars": (lambda document, _: document.pop("noise_scalars"), "lacks noise_scalars"),
    "calibration as text": (lambda document, _: document.update(calibration="x"), "calibration that is not an object"),
    "calibration without a scale": (
        lambda d, _: d["calibration"].pop("noise_scale"),
        "has calibration that cannot be read",
    ),
    "scale of zero": (lambda d, _: d["calibration"].update(noise_scale=0.0), "scales must be above zero"),
    "quantiles that fall": (lambda d, _: d["calibration"]["quantiles"].reverse(), "two lists of one length"),
    "one quantile less": (lambda d, _: d["calibration"]["quantiles"].pop(), "two lists of one length"),
    "null quantile": (lambda d, _: d["calibration"]["quantiles"].__setitem__(0, None), "not a finite number"),
    "other intervals": (lambda d, _: d["calibration"].update(intervals="odd"), "has calibration that cannot be read"),
    "other transform": (lambda d, _: d["transform"].update(kind="sqrt"), "has transform that cannot be read"),
    "transform of scale zero": (lambda d, _: d["transform"].update(scale=0.0), "a scale above zero"),
    "noise without tensors": (without_noise, "disagree on whether the noise varies"),
    "tensors without noise": (lambda d, _: d.update(noise_scalars=None), "disagree on whether the noise varies"),
    "noise scalar": (lambda d, _: d["noise_scalars"].update(target_shift=None), "finite number"),
    "noise tensor": (lambda _, arrays: arrays.pop("noise.alpha"), "do not make a model"),
    "noise of other size": (lambda _, a: a.update({"noise.alpha": np.ones(1)}), r"alpha: expected shape"),
    "noise not finite": (lambda _, a: a.update({"noise.alpha": a["noise.alpha"] * np.nan}), "noise.alpha has a number"),
}


@pytest.fixture(scope="module")
def stored() -> bytes:
    return save(rich(Artefact.FULL))


@pytest.mark.parametrize("name", BROKEN)
def test_a_part_that_does_not_fit_is_named(stored: bytes, name: str) -> None:
    assert load(changed(stored, lambda *_: None)).noise is not None
    change, words = BROKEN[name]
    with pytest.raises(BrokenArtefactError, match=words):
        load(changed(stored, change))


def test_an_artefact_of_the_first_format_predicts_what_it_always_did() -> None:
    data = FIRST.read_bytes()
    model = load(data)
    assert model.kind is Artefact.FULL
    assert model.noise is None
    assert model.calibration.to_json() == {
        "latent_scale": 1.0,
        "noise_scale": 1.0,
        "rows": 0,
        "probabilities": [],
        "quantiles": [],
        "intervals": "symmetric",
    }
    assert model.transform.kind is TargetTransform.NONE
    served = load_model(data)
    inputs = served.rows.decode_rows(orjson.dumps(FIRST_ROWS))
    found = answer_arrays(served, inputs, PredictOptions(include=frozenset({"latent_std"})))
    assert found.keys() == {"mean", "std", "lower", "upper", "latent_std", "support"}
    del found["support"]  # for warnings of far rows
    for name, values in found.items():
        np.testing.assert_allclose(values, FIRST_ANSWER[name], rtol=1e-9, err_msg=name)
    again = load(save(model))  # as format 2
    assert save(again) == save(model)
    assert again.report == model.report


@pytest.fixture
def empty(tmp_path: Path) -> Any:
    with running(tmp_path) as service:
        yield service


def test_a_service_goes_on_serving_it(empty: Service) -> None:
    data = FIRST.read_bytes()
    key = empty.blobs.put("models", ".safetensors", data)
    with empty.database.write() as connection:
        catalog.publish(connection, model="old", artefact=key, size=len(data), job_id=None, summary={})
    found = empty.ask("old", FIRST_ROWS, include=["latent_std", "support"], quantiles=[0.025])
    for name, values in FIRST_ANSWER.items():
        np.testing.assert_allclose(found[name], values, rtol=1e-9, err_msg=name)
    np.testing.assert_allclose(found["quantile_values"][0], found["lower"], rtol=1e-9)
    assert found["support"][2] == pytest.approx(1.0)
    page = empty.client.get("/models/old/versions/1").json()
    assert page["artefact"] is None
    assert (page["calibration"]["rows"], page["target_transform"]["kind"]) == (0, "none")
    assert empty.client.get("/models/old/versions/1/artefact").content == data


def test_a_mean_alone_keeps_its_parts_too() -> None:
    model = rich(Artefact.FULL)
    bare = replace(model, posterior=load(save(model)).model().posterior.without_variance())
    after = load(save(bare))
    assert after.kind is Artefact.MEAN
    assert after.noise is not None
    assert after.calibration.rows == model.calibration.rows


# Precision


def test_the_precision_is_kept_and_float64_where_it_is_not_said() -> None:
    before = replace(rich(Artefact.FULL), precision=Precision.FLOAT32)
    data = save(before)
    assert load(data).precision is load(data).model().precision is Precision.FLOAT32
    (length,) = struct.unpack_from("<Q", data)
    document = orjson.loads(orjson.loads(data[8 : 8 + length])["__metadata__"]["pursuit"])
    del document["sha256"]
    assert document.pop("precision") == "float32"
    older = save_tensors(load_tensors(data), metadata={"pursuit": orjson.dumps(document).decode()})
    assert load(older).precision is Precision.FLOAT64
    wrong = save_tensors(load_tensors(data), metadata={"pursuit": orjson.dumps(document | {"precision": 16}).decode()})
    with pytest.raises(BrokenArtefactError, match="16"):
        load(wrong)
