"""Report of `/models/{name}/monitoring` on a version, and the truth that `/feedback` brings."""

import math
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np

from app.database.engine import Database
from app.errors import ConflictError, InvalidRequestError
from app.services.keys.caller import ANYBODY, Caller
from app.services.monitoring.kept_predictions import LEVEL, RowNumbers
from app.services.monitoring.profile import TrainingProfile
from app.services.monitoring.summary import LEAST_ROWS, Summary, drift, messages
from app.storage import artefact, catalog, kept_predictions, monitoring
from app.storage.artefact import TRAINING_PROFILE
from app.storage.blobs import BlobStore
from app.storage.monitoring import Truth
from app.tables import Schema
from core.arrays import BoolArray, FloatArray

_Z = 1.959963984540054
"""Normal quantile of the interval of a share."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Monitoring:
    """The service."""

    database: Database
    blobs: BlobStore

    def report(self, reference: str, *, days: int) -> dict[str, Any]:
        """Return what is known of a version's last days, as JSON. NotFoundError."""
        with self.database.read() as connection:
            version = catalog.resolve(connection, reference)
            summaries = monitoring.days(connection, version.model, version.version, limit=days)
            truths = monitoring.truths(connection, version.model, version.version, limit=days)
        stored = artefact.load(self.blobs.read(version.artefact))
        profile = TrainingProfile.from_json(Schema.from_json(stored.schema), stored.report.get(TRAINING_PROFILE))
        total = Summary()
        by_day = []
        for day, document in summaries:
            summary = Summary.from_json(document)
            total.add(summary)
            by_day.append({"day": day, **drift(summary, profile)})
        found = drift(total, profile)
        feedback = feedback_json(truths, profile)
        told = [*messages(found), *([feedback["message"]] if feedback["message"] else [])]
        return {
            "model": version.model,
            "version": version.version,
            "has_profile": profile is not None,
            "total": found,
            "days": by_day,
            "feedback": feedback,
            "messages": told,
        }

    def add_truth(self, model: str, version: int, truth: FloatArray, numbers: RowNumbers) -> dict[str, Any]:
        """Hold predictions against the truth (m,), NaN where it is not known, and keep the counts; return them."""
        _check_length(truth, len(numbers.mean))
        found = _truth(truth, numbers, ~np.isnan(truth))
        if found.rows:
            with self.database.write() as connection:
                monitoring.add_truth(connection, model, version, found)
        return _counts(model, version, found, waiting=0)

    def answer(self, prediction: str, truth: FloatArray, caller: Caller = ANYBODY) -> dict[str, Any]:
        """Hold a kept prediction against the truth (m,) of its rows, NaN where it will come later; return the counts.

        Each row counts once, whichever process is told. NotFoundError; ConflictError for a row whose truth is there.
        """
        with self.database.write() as connection:
            kept = kept_predictions.hold(connection, prediction)
            caller.check_model(kept.model)
            catalog.resolve(connection, f"{kept.model}@{kept.version}")  # NotFoundError where it was deleted
            _check_length(truth, kept.rows)
            known = ~np.isnan(truth)
            if kept.numbers is None and known.any():
                raise ConflictError(f"the truth of {prediction} came back before: it is counted once")
            numbers = RowNumbers.unpack(kept.numbers, kept.rows) if kept.numbers is not None else _none(kept.rows)
            again = np.flatnonzero(known & ~numbers.waiting & ~np.isnan(numbers.mean))
            if len(again):
                raise ConflictError(
                    f"the truth of row {again[0]} of {prediction} came back before: it is counted once; send null for "
                    "rows that were told"
                )
            taken = known & numbers.waiting
            found = _truth(truth, numbers, taken)
            left = replace(numbers, waiting=numbers.waiting & ~taken)
            more = bool(left.waiting.any())
            kept_predictions.replace_numbers(connection, prediction, left.pack() if more else None)
            if found.rows:
                monitoring.add_truth(connection, kept.model, kept.version, found)
        return _counts(kept.model, kept.version, found, waiting=int(left.waiting.sum()))


def feedback_json(truths: list[Truth], profile: TrainingProfile | None) -> dict[str, Any]:
    """Live coverage with its interval, error, and a sentence where the level is outside of that interval."""
    rows, known = sum(truth.rows for truth in truths), sum(truth.with_interval for truth in truths)
    covered, squared = sum(truth.covered for truth in truths), sum(truth.squared_error for truth in truths)
    mean_squared = squared / rows if rows else None
    nmse = mean_squared / profile.variance if mean_squared is not None and profile and profile.variance > 0 else None
    coverage: dict[str, Any] | None = None
    message = None
    if known:
        low, high = wilson(covered, known)
        coverage = {
            "level": LEVEL,
            "share": covered / known,
            "covered": covered,
            "rows": known,
            "lower": low,
            "upper": high,
        }
        if known >= LEAST_ROWS and not low <= LEVEL <= high:
            message = (
                f"of {known:,} rows whose truth came back {covered:,} ({covered / known:.1%}) are inside of their "
                f"{LEVEL:.0%} intervals, which chance does not explain ({low:.1%} to {high:.1%}): "
                + ("the error bars are too narrow, train it again" if high < LEVEL else "the error bars are too wide")
            )
    rmse = None if mean_squared is None else math.sqrt(mean_squared)
    return {"rows": rows, "coverage": coverage, "rmse": rmse, "nmse": nmse, "message": message}


def _none(rows: int) -> RowNumbers:
    """Rows that wait for nothing."""
    return RowNumbers(np.zeros(rows, np.bool_), *np.full((3, rows), np.nan))


def _check_length(truth: FloatArray, rows: int) -> None:
    if len(truth) != rows:
        raise InvalidRequestError(f"truth: expected {rows} numbers, one for each row; got {len(truth)}")


def _truth(truth: FloatArray, numbers: RowNumbers, rows: BoolArray) -> Truth:
    """Counts of the chosen rows. InvalidRequestError for a number that is too large."""
    truth, lower, upper = truth[rows], numbers.lower[rows], numbers.upper[rows]
    with np.errstate(over="ignore"):
        squared = float(np.square(truth - numbers.mean[rows]).sum())
    if not math.isfinite(squared):
        raise InvalidRequestError("truth: a number is so large that its error has no square")
    return Truth(
        day=datetime.now(UTC).date().isoformat(),
        rows=len(truth),
        with_interval=int(np.count_nonzero(~np.isnan(lower))),
        covered=int(np.count_nonzero((truth >= lower) & (truth <= upper))),
        squared_error=squared,
    )


def _counts(model: str, version: int, found: Truth, *, waiting: int) -> dict[str, Any]:
    return {
        "model": model,
        "version": version,
        "rows": found.rows,
        "covered": found.covered if found.with_interval or not found.rows else None,
        "waiting": waiting,
    }


def wilson(successes: int, count: int) -> tuple[float, float]:
    """Interval of a share by Wilson's score (1927), 95%; count >= 1."""
    share = successes / count
    centre = share + _Z**2 / (2 * count)
    spread = _Z * math.sqrt(share * (1.0 - share) / count + _Z**2 / (4 * count**2))
    scale = 1.0 + _Z**2 / count
    return max(0.0, (centre - spread) / scale), min(1.0, (centre + spread) / scale)
