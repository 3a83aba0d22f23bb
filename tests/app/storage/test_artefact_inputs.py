"""Artefacts of models whose inputs are transformed."""

from dataclasses import replace

import numpy as np
import pytest

from app.errors import BrokenArtefactError
from app.storage.artefact import load, save
from core.input_transform import InputTransform
from core.predict.model import ModelPredictor, VaryingNoise
from core.sparse.posterior import SparsePosterior
from tests.app.storage.test_artefact import artefact, changed, document_of, full, with_mean, with_version


def drawn_in(posterior: SparsePosterior) -> SparsePosterior:
    """The last column under a power."""
    table = np.array([[0.0, 0.0, 1e7], [1.0, 1.0, 1e6], [1.0, 1.0, 0.25]])
    return replace(posterior, input_transform=InputTransform(table=table))


@pytest.mark.parametrize("near", [False, True])
def test_a_transform_of_the_inputs_comes_back_and_older_readers_refuse_it(near: bool) -> None:
    """A reader of an earlier format would leave the tensor out, and predict other numbers."""
    model = full(artefact()) if near else with_mean(artefact())
    assert isinstance(model.posterior, SparsePosterior)
    noise = VaryingNoise(posterior=drawn_in(model.posterior.without_variance()), lowest=-1.0, highest=1.0)
    mean = None if model.mean is None else drawn_in(model.mean)
    before = replace(model, posterior=drawn_in(model.posterior), noise=noise, mean=mean)
    data = save(before)
    after = load(data)
    assert save(after) == data
    document = document_of(data)
    assert document["format_version"] == 8
    inputs = np.random.default_rng(1).normal(size=(70, 3)) * [1e-3, 1.0, 1e6] + [0.0, 5.0, 1e7]
    one, two = (ModelPredictor(each.model()).predict(inputs) for each in (before, after))
    assert one.centre.tobytes() == two.centre.tobytes()
    assert one.variance.tobytes() == two.variance.tobytes()
    assert (one.centre != ModelPredictor(model.model()).predict(inputs).centre).any()
    with pytest.raises(BrokenArtefactError, match="format version 6 and the tensor input_transform"):
        load(changed(data, with_version(6)), check_digest=False)
