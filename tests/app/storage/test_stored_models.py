"""Models written by an earlier release load, predict the same, and are written again byte for byte."""

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load as load_tensors

from app.storage.artefact import load, save
from app.storage.artefact_document import DIGEST, text_of
from core.spec import Artefact, Precision
from core.train.progress import Checkpoint
from core.train.run import train
from tests.app.storage.stored_models import (
    CHECKPOINTED,
    FOLDER,
    SPECS,
    machine,
    predictions,
    spec_of,
    table,
)

ELSEWHERE = 1e-12
"""Relative to the largest value: another processor adds in another order, and products are rounded with fused
multiply-adds or without."""
ELSEWHERE_COMPACT = 1e-8
"""The same for a model that is expanded first: Cholesky factors of Kuu, whose condition the jitter holds to 1e8."""
ELSEWHERE_SINGLE = 1e-3
"""The same for variances made of 24-bit products: what a model may lose by them, or it would not be kept in float32."""
THERE = json.loads((FOLDER / "machine.json").read_text(encoding="utf-8"))


def test_there_is_one_of_each_kind() -> None:
    models = {path.stem: load(path.read_bytes()) for path in FOLDER.glob("*.safetensors")}
    assert set(models) == set(SPECS)
    assert {model.kind for model in models.values()} == set(Artefact)
    assert {model.precision for model in models.values()} == set(Precision)
    assert models["noise"].noise is not None
    assert models["compact-noise"].noise is not None
    assert models["asymmetric"].calibration.intervals == "asymmetric"
    assert models["sor"].model().posterior.variance_sign > 0
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < 200_000


@pytest.mark.parametrize("name", SPECS)
def test_an_old_model_predicts_what_it_did(name: str) -> None:
    ours = predictions(load((FOLDER / f"{name}.safetensors").read_bytes()).model())
    with np.load(FOLDER / "predictions.npz") as stored:
        then = {key.split("/")[1]: stored[key] for key in stored.files if key.startswith(f"{name}/")}
    assert set(ours) == set(then)
    for key, values in then.items():
        if machine() == THERE:
            np.testing.assert_array_equal(ours[key], values, err_msg=key)
            continue
        share = ELSEWHERE_COMPACT if "compact" in name else ELSEWHERE_SINGLE if name == "float32" else ELSEWHERE
        np.testing.assert_allclose(ours[key], values, rtol=share, atol=share * np.abs(values).max(), err_msg=key)


@pytest.mark.parametrize("name", SPECS)
def test_an_old_model_is_written_again_byte_for_byte(name: str) -> None:
    """But for the digest, which files of that release have not."""
    data = (FOLDER / f"{name}.safetensors").read_bytes()
    text, again = text_of(data), text_of(save(load(data)))
    assert DIGEST not in text
    assert again[: again.rindex(f',"{DIGEST}"')] + "}" == text
    ours, then = load_tensors(save(load(data))), load_tensors(data)
    assert set(ours) == set(then)
    for key, array in then.items():
        assert (ours[key].dtype, ours[key].tobytes()) == (array.dtype, array.tobytes())


def test_a_run_goes_on_from_an_old_checkpoint() -> None:
    """The last one holds theta and the basis: what is left is the model's own fit."""
    lines = Path(FOLDER / "checkpoints.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 3
    model = load((FOLDER / f"{CHECKPOINTED}.safetensors").read_bytes())
    result = train(table(), spec_of(CHECKPOINTED), resume=Checkpoint.from_json(json.loads(lines[-1])))
    assert result.report.hyperparameters.noise_variance == pytest.approx(
        model.report["hyperparameters"]["noise_variance"], rel=1e-12
    )
    assert result.report.objectives == pytest.approx(model.report["objectives"], rel=1e-12)
    if machine() == THERE:
        assert result.selection.indices.tolist() == list(model.basis_rows)
        for name, array in model.model().posterior.arrays().items():
            np.testing.assert_array_equal(result.model.posterior.arrays()[name], array, err_msg=name)
