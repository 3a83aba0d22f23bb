"""A model knows what it predicted when it was stored."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from app.errors import BrokenArtefactError
from app.services.predict.loaded_model import load_model
from app.services.predict.probe import probe_of
from app.storage import artefact
from app.storage.probe import Probe
from core.sparse.posterior import SparsePosterior
from core.spec import Artefact
from tests.app.services.predict.test_registry import stored

CHANGES: dict[str, Callable[[Probe], Probe]] = {
    "mean": lambda probe: replace(probe, mean=probe.mean + 2e-6 * (probe.std or abs(probe.mean))),
    "std": lambda probe: replace(probe, std=None if probe.std is None else probe.std * (1 + 2e-6)),
    "kind": lambda probe: replace(probe, std=1.0 if probe.std is None else None),
}


@pytest.mark.parametrize("kind", list(Artefact))
def test_it_is_kept_and_reproduced(kind: Artefact) -> None:
    model = artefact.load(stored(0, kind=kind))
    probe = probe_of(model)
    assert probe is not None
    assert (probe.std is None) is (kind is Artefact.MEAN)
    data = artefact.save(replace(model, probe=probe))
    assert artefact.load(data).probe == probe
    loaded = load_model(data)
    assert float(loaded.predictor.mean(model.posterior.basis[:1])[0]) == pytest.approx(probe.mean, rel=1e-12)


@pytest.mark.parametrize("change", sorted(CHANGES))
@pytest.mark.parametrize("kind", list(Artefact))
def test_other_numbers_are_refused(kind: Artefact, change: str) -> None:
    model = artefact.load(stored(0, kind=kind))
    probe = probe_of(model)
    assert probe is not None
    changed = CHANGES[change](probe)
    if changed == probe:
        return
    with pytest.raises(BrokenArtefactError, match="probe row"):
        load_model(artefact.save(replace(model, probe=changed)))


def test_changed_weights_are_noticed() -> None:
    model = artefact.load(stored(0))
    model = replace(model, probe=probe_of(model))
    assert isinstance(model.posterior, SparsePosterior)
    other = replace(model, posterior=replace(model.posterior, alpha=1.001 * model.posterior.alpha))
    with pytest.raises(BrokenArtefactError, match="probe row"):
        load_model(artefact.save(other))


def test_an_artefact_of_an_older_release_has_none() -> None:
    model = artefact.load(stored(0))
    assert model.probe is None
    load_model(artefact.save(model))


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"row": 0, "mean": 1.0}, "without row, mean and std"),
        ([], "without row, mean and std"),
        ({"row": -1, "mean": 1.0, "std": 1.0}, "probe.row"),
        ({"row": 5, "mean": 1.0, "std": 1.0}, "probe.row"),
        ({"row": True, "mean": 1.0, "std": 1.0}, "probe.row"),
        ({"row": 0, "mean": "x", "std": 1.0}, "probe.mean"),
        ({"row": 0, "mean": None, "std": 1.0}, "probe.mean"),
        ({"row": 0, "mean": 1.0, "std": 1e999}, "probe.std"),
    ],
)
def test_what_is_no_probe(document: object, message: str) -> None:
    with pytest.raises(BrokenArtefactError, match=message):
        Probe.from_json(document, 5)
