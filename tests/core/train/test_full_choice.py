"""core/train/full_choice.py: which of two models is taken, by left-out rows."""

import numpy as np

from core.arrays import FloatArray
from core.train.full_choice import Judged, prefers_full


def judged(loss: FloatArray, squares: FloatArray | None = None) -> Judged:
    return Judged(loss=loss, squares=np.ones(len(loss)) if squares is None else squares)


def test_what_is_preferred() -> None:
    """Losses of 400 rows decide, whose differences have a standard error of .05."""
    random = np.random.default_rng(0)
    other, noise = random.normal(size=400), random.normal(size=400)
    noise -= noise.mean()
    for gain, small, large in ((0.2, True, True), (0.03, True, False), (-0.03, True, False), (-0.2, False, False)):
        full = judged(other - gain + noise)
        assert prefers_full(full, judged(other), exact=True)[0] is small
        assert prefers_full(full, judged(other))[0] is large
        assert prefers_full(full, judged(other), constant=True)[0] is (gain > 0.15)
    worse = judged(other - 0.2, squares=np.full(400, 1.1))
    taken, reason = prefers_full(worse, judged(other))
    assert not taken
    assert "squared errors are larger" in reason
    for gain, squares, smaller in ((0.03, 0.9, True), (-0.03, 0.9, True), (-0.08, 0.9, False), (-0.03, 0.99, False)):
        full = judged(other - gain + noise, squares=np.full(400, squares))
        taken, reason = prefers_full(full, judged(other))
        assert taken is smaller
        assert ("squared errors of 400 are smaller by 10.0%" in reason) is smaller
        assert not prefers_full(full, judged(other), constant=True)[0]
    alike = judged(other + noise)
    assert not prefers_full(alike, judged(other))[0]
    taken, reason = prefers_full(alike, judged(other), (np.full(4_000, 0.9), np.ones(4_000)))
    assert taken
    assert "squared errors of 4,000 are smaller by 10.0%" in reason
