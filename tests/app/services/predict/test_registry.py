"""Loaded models: kept, bounded, loaded once, served while the database is away."""

import asyncio
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.database.engine import Database
from app.errors import BrokenArtefactError, InvalidRequestError, NotFoundError, UnavailableError
from app.services.predict import registry
from app.services.predict.loaded_model import load_model
from app.services.predict.options import PredictOptions
from app.services.predict.registry import ModelRegistry
from app.services.predict.run import answer_arrays
from app.storage import artefact, catalog
from app.storage.artefact import ModelArtefact
from app.storage.blobs import LocalBlobStore
from core.data import Dataset
from core.errors import MeanOnlyError
from core.predict.compact import CompactPosterior
from core.spec import Artefact, Method, TrainSpec
from core.train.run import train

SCHEMA = {
    "target": "y",
    "unseen": "error",
    "features": [{"name": "x", "kind": "number", "levels": [], "fill": None, "indicator": False}],
}


def stored(seed: int, schema: dict[str, Any] = SCHEMA, kind: Artefact = Artefact.FULL) -> bytes:
    chance = np.random.default_rng(seed)
    inputs = chance.normal(size=(30, 1))
    spec = TrainSpec(adaptation=None, basis_size=5, method=Method.RAND, seed=seed, artefact=kind)
    result = train(Dataset(inputs=inputs, targets=np.sin(inputs[:, 0])), spec)
    return artefact.save(
        ModelArtefact(
            posterior=result.stored,
            schema=schema,
            spec={},
            hyperparameters={},
            basis_columns=("x",),
            basis_rows=(),
            gains=(),
            report={},
        )
    )


class CountingStore(LocalBlobStore):
    """Counts what is read, and can be slow."""

    reads = 0
    pause = 0.0

    def read(self, key: str) -> bytes:
        self.reads += 1
        threading.Event().wait(self.pause)
        return super().read(key)


@pytest.fixture
def store(tmp_path: Path) -> CountingStore:
    return CountingStore(tmp_path / "blobs")


@pytest.fixture
def base(tmp_path: Path) -> Iterator[Database]:
    opened = Database(f"sqlite:///{tmp_path}/pursuit.db")
    opened.migrate()
    yield opened
    opened.close()


def publish(base: Database, store: LocalBlobStore, name: str, seed: int) -> None:
    data = stored(seed)
    key = store.put("models", ".safetensors", data)
    with base.write() as connection:
        catalog.publish(connection, model=name, artefact=key, size=len(data), job_id=None, summary={})


def registry_of(base: Database, store: LocalBlobStore, **bounds: int) -> ModelRegistry:
    limits = {"most_models": 8, "most_bytes": 1 << 30} | bounds
    return ModelRegistry(base, store, most_models=limits["most_models"], most_bytes=limits["most_bytes"])


def test_many_askers_load_a_model_once(base: Database, store: CountingStore) -> None:
    publish(base, store, "m", 0)
    store.pause = 0.2
    asked = registry_of(base, store)

    async def ask() -> None:
        served = await asyncio.gather(*(asked.resolve("m") for _ in range(100)))
        assert len({id(one.model) for one in served}) == 1

    asyncio.run(ask())
    assert store.reads == 1


def test_one_asker_that_goes_away_takes_nobody_along(base: Database, store: CountingStore) -> None:
    publish(base, store, "m", 0)
    store.pause = 0.2
    asked = registry_of(base, store)

    async def ask() -> None:
        impatient = asyncio.create_task(asked.resolve("m"))
        patient = asyncio.create_task(asked.resolve("m"))
        await asyncio.sleep(0.05)
        impatient.cancel()
        assert (await patient).version == 1

    asyncio.run(ask())


def test_a_new_version_is_seen_at_once(base: Database, store: CountingStore) -> None:
    publish(base, store, "m", 0)
    asked = registry_of(base, store)

    async def ask() -> None:
        assert (await asked.resolve("m")).version == 1
        publish(base, store, "m", 1)
        await asyncio.sleep(0)  # the next time that the loop goes round
        assert (await asked.resolve("m")).version == 2
        assert (await asked.resolve("m@1")).version == 1

    asyncio.run(ask())
    assert store.reads == 2


def test_the_least_recently_used_go_first(base: Database, store: CountingStore) -> None:
    for seed, name in enumerate("abc"):
        publish(base, store, name, seed)
    asked = registry_of(base, store, most_models=2)

    async def ask(*names: str) -> None:
        for name in names:
            await asked.resolve(name)

    asyncio.run(ask("a", "b", "a", "c"))
    assert store.reads == 3
    asyncio.run(ask("a", "c"))
    assert store.reads == 3
    asyncio.run(ask("b"))
    assert store.reads == 4


def test_a_model_above_the_bound_of_bytes_is_still_served(base: Database, store: CountingStore) -> None:
    for seed, name in enumerate("ab"):
        publish(base, store, name, seed)
    asked = registry_of(base, store, most_bytes=1)

    async def ask() -> None:
        for name in ("a", "a", "b", "b", "a"):
            assert (await asked.resolve(name)).name == name

    asyncio.run(ask())
    assert store.reads == 3


def test_what_is_known_is_served_while_the_database_is_away(
    base: Database, store: CountingStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "FRESH_SECONDS", 0.0)
    publish(base, store, "m", 0)
    asked = registry_of(base, store)

    def away() -> Any:
        raise UnavailableError("the database does not answer")

    async def ask() -> None:
        await asked.resolve("m")
        monkeypatch.setattr(base, "read", away)
        assert (await asked.resolve("m")).version == 1
        with pytest.raises(UnavailableError):
            await asked.resolve("other")

    asyncio.run(ask())


def test_what_is_not_there_is_asked_again(base: Database, store: CountingStore) -> None:
    asked = registry_of(base, store)

    async def ask() -> None:
        with pytest.raises(NotFoundError):
            await asked.resolve("m")
        publish(base, store, "m", 0)
        assert (await asked.resolve("m")).version == 1

    asyncio.run(ask())


def test_an_artefact_whose_columns_do_not_fit() -> None:
    two = SCHEMA | {"features": [*SCHEMA["features"], *SCHEMA["features"]]}
    with pytest.raises(BrokenArtefactError, match="2 inputs, its model has 1"):
        load_model(stored(0, two))
    with pytest.raises(BrokenArtefactError, match="columns cannot be read"):
        load_model(stored(0, {"target": "y"}))


def test_numbers_that_make_no_model_are_a_broken_artefact() -> None:
    model = artefact.load(stored(0, kind=Artefact.COMPACT))
    assert isinstance(model.posterior, CompactPosterior)
    wrong = replace(model.posterior, directions=10.0 * np.eye(5))
    with pytest.raises(BrokenArtefactError, match=r"do not make a model: A .5 x 5. is not positive definite"):
        load_model(artefact.save(replace(model, posterior=wrong)))


def test_a_compact_model_predicts_as_the_full_one() -> None:
    inputs = np.linspace(-3, 3, 50)[:, np.newaxis]
    models = (load_model(stored(0, kind=kind)) for kind in (Artefact.FULL, Artefact.COMPACT))
    full, compact = (answer_arrays(model, inputs) for model in models)
    assert (full["mean"] == compact["mean"]).all()
    np.testing.assert_allclose(compact["std"], full["std"], rtol=0.02)


def test_a_mean_alone_has_no_interval() -> None:
    model = load_model(stored(0, kind=Artefact.MEAN))
    inputs = np.zeros((2, 1))
    found = answer_arrays(model, inputs)
    assert found.keys() == {"mean"}
    assert (found["mean"] == answer_arrays(load_model(stored(0)), inputs)["mean"]).all()
    latent = frozenset({"latent_std"})
    for asked in (
        PredictOptions(levels=(0.9,)),
        PredictOptions(include=latent),
        PredictOptions(levels=(0.95,), include=latent),
        PredictOptions(quantiles=(0.5,)),
    ):
        with pytest.raises(MeanOnlyError):
            answer_arrays(model, inputs, asked)


@pytest.mark.parametrize("interval", [0.0, 1.0, -0.1, 1.1, float("nan")])
def test_an_interval_must_be_a_probability(interval: float) -> None:
    with pytest.raises(InvalidRequestError, match="interval"):
        PredictOptions(levels=(0.5, interval))
    with pytest.raises(InvalidRequestError, match="quantiles"):
        PredictOptions(quantiles=(0.5, interval))


@pytest.mark.parametrize("size", [1e10, 1e100, 1e300, -1.7e308])
def test_far_away_the_prior_answers(size: float) -> None:
    model = load_model(stored(0))
    found = answer_arrays(model, np.array([[size]]), PredictOptions(levels=(0.95,)))
    prior = answer_arrays(model, np.array([[1e6]]), PredictOptions(levels=(0.95,)))
    assert found["mean"] == pytest.approx(prior["mean"])
    assert found["std"] == pytest.approx(prior["std"])
