"""Report of `/models/{name}/monitoring` on a version, and the truth that `/feedback` brings.

Of several targets what depends on the target is an object by their names.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import numpy as np
from sqlalchemy import Connection

from app.database.engine import Database
from app.errors import ConflictError
from app.services.keys.caller import ANYBODY, Caller
from app.services.monitoring.kept_predictions import LEVEL, RowNumbers
from app.services.monitoring.profile import TrainingProfile, target_profiles
from app.services.monitoring.summary import LEAST_ROWS, Summary, drift, messages
from app.services.monitoring.truths import Targets, count_truth, counts_json, read_truth
from app.services.predict.row_weights import TrainedWeights
from app.storage import artefact, catalog, kept_predictions, monitoring
from app.storage.artefact import TRAINING_PROFILE, ModelArtefact
from app.storage.blobs import BlobStore
from app.storage.kept_predictions import KeptPrediction
from app.storage.monitoring import Truth
from app.tables import Schema

_Z = 1.959963984540054
"""Normal quantile of the interval of a share."""
_OF_TARGET = ("near_prior_share", "columns", "prediction_psi")
"""Fields of a summary that depend on the target."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Monitoring:
    """The service."""

    database: Database
    blobs: BlobStore

    def report(self, reference: str, *, days: int) -> dict[str, Any]:
        """Return what is known of a version's last days, as JSON. NotFoundError."""
        with self.database.read() as connection:
            version = catalog.resolve(connection, reference)
            name, number = version.model, version.version
            targets = Targets.of(version.summary)
            summaries = monitoring.days(connection, name, number, limit=days)
            truths = [monitoring.truths(connection, name, number, limit=days, place=place) for place in targets.places]
        stored = artefact.load(self.blobs.read(version.artefact))
        profiles = _profiles(stored)
        calibrated = [each.model().calibration.rows for each in (stored, *(stored.others or ()))]
        total = Summary()
        by_day = []
        for day, document in summaries:
            summary = Summary.from_json(document)
            total.add(summary)
            by_day.append({"day": day, **_drift_json(_drifts(summary, profiles), targets)})
        found = _drifts(total, profiles)
        feedback = [feedback_json(*each, targets.weights) for each in zip(truths, profiles, calibrated, strict=True)]
        return {
            "model": name,
            "version": number,
            "has_profile": all(profile is not None for profile in profiles),
            "total": _drift_json(found, targets),
            "days": by_day,
            "feedback": targets.by_name(feedback),
            "messages": _sentences(found, feedback, targets),
        }

    def add_truth(
        self,
        model: str,
        version: int,
        truth: msgspec.Raw,
        numbers: RowNumbers,
        targets: Targets,
    ) -> dict[str, Any]:
        """Hold predictions against the truth of their rows, and keep the counts; return them. InvalidRequestError."""
        known = read_truth(truth, targets, numbers.rows)
        found = count_truth(known, numbers, ~np.isnan(known), targets)
        with self.database.write() as connection:
            _keep(connection, model, version, found, targets)
        return counts_json(model, version, found, [0] * len(found), targets)

    def answer(self, prediction: str, truth: msgspec.Raw, caller: Caller = ANYBODY) -> dict[str, Any]:
        """Hold a kept prediction against the truth of its rows, None where it will come later; return the counts.

        Each row counts once for each target, whichever process is told. InvalidRequestError; NotFoundError;
        ConflictError for a row whose truth is there.
        """
        with self.database.write() as connection:
            kept = kept_predictions.hold(connection, prediction)
            caller.check_model(kept.model)
            version = catalog.resolve(connection, f"{kept.model}@{kept.version}")  # NotFoundError where it was deleted
            targets = Targets.of(version.summary)
            truths = read_truth(truth, targets, kept.rows)
            known = ~np.isnan(truths)
            if kept.numbers is None and known.any():
                raise ConflictError(f"the truth of {prediction} came back before: it is counted once")
            numbers = _kept_numbers(kept, len(targets.names))
            again = np.argwhere(known & ~numbers.waiting & ~np.isnan(numbers.mean))
            if len(again):
                place, row = again[0]
                of = f" of {targets.names[place]!r}" if targets.several else ""
                raise ConflictError(
                    f"the truth{of} of row {row} of {prediction} came back before: it is counted once; send null for "
                    "rows that were told"
                )
            taken = known & numbers.waiting
            found = count_truth(truths, numbers, taken, targets)
            left = replace(numbers, waiting=numbers.waiting & ~taken)
            more = bool(left.waiting.any())
            kept_predictions.replace_numbers(connection, prediction, left.pack() if more else None)
            _keep(connection, kept.model, kept.version, found, targets)
        return counts_json(kept.model, kept.version, found, left.waiting.sum(axis=1).tolist(), targets)


def feedback_json(
    truths: list[Truth], profile: TrainingProfile | None, calibrated: int, weights: TrainedWeights | None = None
) -> dict[str, Any]:
    """Live coverage with its interval, error, and a sentence where the level is outside of that interval and of what
    chance has made of error bars that were fitted to so many left-out rows, `calibrated`, 0 where they were to none.
    weights: of the rows of the training, where they had some."""
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
        counted = known if not calibrated else known * calibrated / (known + calibrated)
        low, high = wilson(counted * covered / known, counted)
        if known >= LEAST_ROWS and not low <= LEVEL <= high:
            message = (
                f"of {known:,} rows whose truth came back {covered:,} ({covered / known:.1%}) are inside of their "
                f"{LEVEL:.0%} intervals, which chance does not explain ({low:.1%} to {high:.1%}): "
                + _reason(narrow=high < LEVEL, weights=weights)
            )
    rmse = None if mean_squared is None else math.sqrt(mean_squared)
    return {"rows": rows, "coverage": coverage, "rmse": rmse, "nmse": nmse, "message": message}


def _reason(*, narrow: bool, weights: TrainedWeights | None) -> str:
    if weights is not None:
        return f"{weights.bars}, and these rows' own weights are not known"
    return "the error bars are too narrow, train it again" if narrow else "the error bars are too wide"


def _keep(connection: Connection, model: str, version: int, found: Sequence[Truth], targets: Targets) -> None:
    for place, one in zip(targets.places, found, strict=True):
        if one.rows:
            monitoring.add_truth(connection, model, version, one, place=place)


def _kept_numbers(kept: KeptPrediction, targets: int) -> RowNumbers:
    """The numbers of a kept prediction; rows that wait for nothing where it has none left."""
    if kept.numbers is not None:
        return RowNumbers.unpack(kept.numbers, targets=targets, rows=kept.rows)
    return RowNumbers(np.zeros((targets, kept.rows), np.bool_), *np.full((3, targets, kept.rows), np.nan))


def _profiles(stored: ModelArtefact) -> tuple[TrainingProfile | None, ...]:
    every = (stored, *(stored.others or ()))
    return target_profiles([(Schema.from_json(one.schema), one.report.get(TRAINING_PROFILE)) for one in every])


def _drifts(summary: Summary, profiles: Sequence[TrainingProfile | None]) -> list[dict[str, Any]]:
    """Return the part of a summary that is by target."""
    return [drift(summary.of_target(place), profile) for place, profile in enumerate(profiles)]


def _drift_json(found: Sequence[Mapping[str, Any]], targets: Targets) -> dict[str, Any]:
    return {**found[0], **{field: targets.by_name([one[field] for one in found]) for field in _OF_TARGET}}


def _sentences(
    found: Sequence[Mapping[str, Any]], feedback: Sequence[Mapping[str, Any]], targets: Targets
) -> list[str]:
    """Say what has drifted, of which targets where it is not of all."""
    said: dict[str, list[str]] = {}
    for name, one, truth in zip(targets.names, found, feedback, strict=True):
        for sentence in (*messages(one), *([truth["message"]] if truth["message"] else [])):
            said.setdefault(sentence, []).append(name)
    return [
        sentence if len(names) == len(targets.names) else f"target {', '.join(map(repr, names))}: {sentence}"
        for sentence, names in said.items()
    ]


def wilson(successes: float, count: float) -> tuple[float, float]:
    """Interval of a share by Wilson's score (1927), 95%; count above 0, that of rows that say as much."""
    share = successes / count
    centre = share + _Z**2 / (2 * count)
    spread = _Z * math.sqrt(share * (1.0 - share) / count + _Z**2 / (4 * count**2))
    scale = 1.0 + _Z**2 / count
    return max(0.0, (centre - spread) / scale), min(1.0, (centre + spread) / scale)
