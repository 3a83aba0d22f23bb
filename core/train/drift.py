"""Drift of the relation that a model learnt: new rows, predicted before they are learnt, beside left-out rows."""

from dataclasses import dataclass

import numpy as np

from core.predict.metrics import Scores, scores
from core.predict.model import Model, ModelPredictor
from core.train.state import NewRows, TrainingState

LEAST_ROWS = 20
"""New rows below which nothing is said of their scores."""
ERRORS, LEAST_EXCESS = 3.0, 0.1
"""Standard errors, and nats a row, by which new rows must be worse than left-out ones were."""
FAR_SUPPORT, FAR_SHARE = 0.9, 0.1
"""A row is far from all data where so much of the prior variance is left; so many of them are an extrapolation."""
GROWTH = 0.5
"""Rows since the last full training, as a share of those it had, from which theta and basis are worth another look."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """Verdict on whether a model holds for new rows, predicted before they were learnt from.

    Their scores, None without new rows; what left-out rows lost in training, nats a row; rows far from all data; rows
    since the last full training over those it had; reasons for a full training, in words.
    """

    scores: Scores | None
    expected_nlpd: float | None
    far_rows: int
    added_share: float
    reasons: tuple[str, ...]


def drift_of(model: Model, state: TrainingState, new: NewRows, expected_nlpd: float | None) -> Drift:
    """Score new rows as the model predicts them. expected_nlpd: see `Drift`. O(k d^2)."""
    rows, ours, far, reasons = len(new.targets), None, 0, list[str]()
    added = state.added + rows
    if rows:
        found = ModelPredictor(model).predict(new.inputs)
        ours = scores(new.targets, found)
        far = int(np.count_nonzero(found.support >= FAR_SUPPORT))
    if ours is not None and rows >= LEAST_ROWS:
        doubt = ERRORS * ours.coverage_standard_error["0.95"]
        if ours.coverage["0.95"] < 0.95 - doubt:
            reasons.append(f"intervals of 95% held {ours.coverage['0.95']:.1%} of the new rows")
        if expected_nlpd is not None:
            excess = ours.nlpd - expected_nlpd
            if excess > max(LEAST_EXCESS, ERRORS * ours.nlpd_standard_error):
                reasons.append(f"new rows lose {excess:.2f} nats a row more than left-out rows did in training")
        if far > FAR_SHARE * rows:
            reasons.append(f"{far:,} of {rows:,} new rows are far from all rows before")
    if added >= GROWTH * state.trained:
        reasons.append(f"{added:,} rows came since the last full training, which had {state.trained:,}")
    share = added / max(state.trained, 1)
    return Drift(scores=ours, expected_nlpd=expected_nlpd, far_rows=far, added_share=share, reasons=tuple(reasons))
