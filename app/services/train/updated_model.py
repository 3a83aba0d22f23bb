"""The model of a target after an update as it is stored: the artefact, and the report of its training with the news."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from app.jobs.child import Task
from app.services.background import product_mean
from app.services.importance import SHARES, variance_shares
from app.services.predict.probe import probe_of
from app.services.train.update_rows import ReadRows
from app.storage.artefact import PREDICTED_ROWS, SCORES_OF, TARGET_NAMES, ModelArtefact
from app.tables import Schema
from core.train.report import ArtefactReport
from core.train.update import Update


def updated_model(
    stored: ModelArtefact, found: Update, task: Task, uploaded: int, rows: ReadRows, seconds: float, *, had: int
) -> ModelArtefact:
    """Return the model of a target after its update. uploaded: rows of the upload; rows: those that the target learnt
    from; seconds: since the beginning; had: rows that it had before."""
    report = _report(stored, found, task, uploaded, rows, seconds, had)
    updated = _artefact(stored, found, report)
    shares = variance_shares(Schema.from_json(updated.schema), product_mean(updated))
    return replace(updated, report={**updated.report, SHARES: shares})


def expected_nlpd(stored: ModelArtefact) -> float | None:
    """Return the mean loss of rows left out in training, nats a row."""
    found = stored.report.get("leave_one_out") or stored.report.get("holdout") or {}
    value = found.get("nlpd")
    return float(value) if isinstance(value, int | float) else None


def _artefact(stored: ModelArtefact, found: Update, report: Mapping[str, Any]) -> ModelArtefact:
    model = found.model
    added = found.basis_numbers.tolist()
    basis_rows = (*stored.basis_rows, *added)
    gains = (*stored.gains, *([None] * len(added)))
    if model.near is not None:
        basis_rows, gains = tuple(found.state.numbers.tolist()), (None,) * len(found.state.numbers)
    hidden = {name: stored.report[name] for name in (PREDICTED_ROWS,) if name in stored.report}
    updated = replace(
        stored,
        posterior=model.posterior,
        noise=model.noise,
        calibration=model.calibration,
        mean=model.mean,
        near=model.near,
        basis_rows=basis_rows,
        gains=gains,
        report={**hidden, **report},
        probe=None,
    )
    return replace(updated, probe=probe_of(updated))


def _report(
    stored: ModelArtefact, found: Update, task: Task, uploaded: int, used: ReadRows, seconds: float, had: int
) -> dict[str, Any]:
    """Report of the training, with what is new: scores of the training stay, and `SCORES_OF` names its version."""
    drift, model = found.drift, found.model
    told = drift.scores
    scores = {"rows": 0, "rmse": None, "nlpd": None, "nlpd_standard_error": None, "coverage": None}
    if told is not None:
        scores = {name: getattr(told, name) for name in scores}
    updates = {
        "from": int(task.payload["version"]),
        "how": found.how,
        "rows_added": len(used.rows),
        "rows_left_out": used.incomplete,
        "rows_copied": used.copies,
        **(
            {"rows_without_target": uploaded - used.incomplete - used.copies - len(used.rows)}
            if TARGET_NAMES in stored.report
            else {}
        ),
        "left_out": task.payload.get("left_out", used.left_out),
        "rows_forgotten": had + len(used.rows) - found.state.rows,
        "basis_added": 0 if model.near is not None else len(found.basis_numbers),
        "recalibrated": found.recalibrated,
        "seconds": seconds,
        "drift": {
            **scores,
            "expected_nlpd": drift.expected_nlpd,
            "far_rows": drift.far_rows,
            "added_share": drift.added_share,
            "train": bool(drift.reasons),
            "reasons": list(drift.reasons),
        },
    }
    before = stored.report
    return {name: value for name, value in before.items() if name != PREDICTED_ROWS} | {
        SCORES_OF: before.get(SCORES_OF, updates["from"]),
        "rows": found.state.rows,
        "rows_uploaded": int(before["rows_uploaded"]) + uploaded,
        "basis_size": len(model.posterior.basis),
        "calibration": {**before["calibration"], **_calibration_of(found)},
        "artefact": {
            **before["artefact"],
            "bytes": ArtefactReport.of(model.posterior, model).bytes,
            "mean_rows": model.mean_rows,
        },
        "update": updates,
    }


def _calibration_of(found: Update) -> dict[str, Any]:
    calibration = found.model.calibration
    return {
        "latent_scale": calibration.latent_scale,
        "noise_scale": calibration.noise_scale,
        "rows": calibration.rows,
    }
