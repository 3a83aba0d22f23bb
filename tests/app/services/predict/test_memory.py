"""Memory of a loaded model, against the bytes of its artefact."""

import gc
import tracemalloc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from app.services.predict.loaded_model import LoadedModel, load_model
from app.services.predict.run import answer_arrays
from app.storage import artefact
from app.storage.artefact import ModelArtefact
from core.arrays import FloatArray
from core.numeric.workspace import Workspace
from core.predict.model import VaryingNoise
from core.sparse.posterior import SparsePosterior
from core.spec import Precision


@pytest.fixture(autouse=True)
def _thawed() -> Iterator[None]:
    """What a test has taken from the collector is given back to it."""
    yield
    gc.unfreeze()


def posterior(size: int, columns: int) -> SparsePosterior:
    """Numbers of the right shapes."""
    chance = np.random.default_rng(size + columns)
    return SparsePosterior(
        basis=chance.normal(size=(size, columns)),
        lengthscales=np.ones(columns),
        groups=np.arange(columns, dtype=np.float64),
        alpha=chance.normal(size=size),
        R=np.triu(chance.normal(size=(size, size))) / size,
        input_shift=np.zeros(columns),
        input_scale=np.ones(columns),
        target_shift=0.0,
        target_scale=1.0,
        signal_variance=1.0,
        bias_variance=0.1,
        noise_variance=0.1,
        variance_base=1.1,
        variance_sign=-1.0,
        far_variance=1.1,
    )


def stored(size: int, columns: int, *, varies: bool = False, precision: Precision = Precision.FLOAT64) -> bytes:
    noise = VaryingNoise(posterior=posterior(size, columns).without_variance(), lowest=-1.0, highest=1.0)
    feature: dict[str, Any] = {"kind": "number", "levels": [], "fill": None, "indicator": False}
    names = tuple(f"x{place}" for place in range(columns))
    return artefact.save(
        ModelArtefact(
            posterior=posterior(size, columns),
            noise=noise if varies else None,
            precision=precision,
            schema={"target": "y", "unseen": "error", "features": [{"name": name, **feature} for name in names]},
            spec={},
            hyperparameters={},
            basis_columns=names,
            basis_rows=tuple(range(size)),
            gains=(None,) * size,
            report={},
        )
    )


def held(data: bytes, scratch: Workspace) -> tuple[int, LoadedModel]:
    """Bytes that are allocated by loading and not given back: the smaller of two loads, for the interpreter's tables
    (of interned strings) grow now and then by megabytes, at nobody's fault.
    """
    first, _ = _held_once(data, scratch)
    second, model = _held_once(data, scratch)
    return min(first, second), model


def _held_once(data: bytes, scratch: Workspace) -> tuple[int, LoadedModel]:
    gc.collect()
    gc.freeze()  # all that other tests have loaded, which the next collection need not look at
    tracemalloc.start()
    model = load_model(data, scratch)
    gc.collect()
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return size, model


@pytest.mark.parametrize(
    ("size", "columns", "varies"), [(500, 8, False), (300, 100, True), (200, 200, False), (600, 2, True)]
)
def test_a_loaded_model_is_at_most_half_larger_than_its_artefact(size: int, columns: int, varies: bool) -> None:
    data = stored(size, columns, varies=varies)
    found, model = held(data, Workspace())
    assert found < 1.5 * len(data)
    assert found - 300_000 < model.size < found + 300_000


def test_in_single_precision_it_is_smaller_than_its_artefact() -> None:
    data = stored(500, 8, precision=Precision.FLOAT32)
    found, _ = held(data, Workspace())
    assert found < 0.9 * len(data)


def test_predicting_again_and_again_holds_nothing() -> None:
    scratch = Workspace()
    model = load_model(stored(100, 3), scratch)
    chance = np.random.default_rng(0)

    def ask() -> FloatArray:
        rows = int(chance.integers(1, 700))
        return answer_arrays(model, chance.normal(size=(rows, 3)))["mean"]

    for _ in range(100):  # the sizes that there are
        ask()
    gc.collect()
    tracemalloc.start()
    for _ in range(200):
        ask()
    gc.collect()
    grown, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert grown < 4 * 512 * 100 * 8
