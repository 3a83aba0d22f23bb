"""Single rows that a fit had not seen: the same that the scores are of, as they are, evenly spread and bounded."""

import numpy as np

from core.predict.distribution import PredictiveDistribution
from core.predict.metrics import scores
from core.train.predicted_rows import LEVEL, MOST_ROWS, PredictedRows


def rows_of(total: int) -> tuple[PredictedRows, PredictiveDistribution]:
    random = np.random.default_rng(3)
    centre, variance = random.normal(size=total), random.uniform(0.5, 2.0, total)
    predicted = PredictiveDistribution(centre=centre, variance=variance)
    targets = np.repeat(centre + np.sqrt(variance) * random.normal(size=total), 3)
    return PredictedRows.of(np.arange(total) * 3, targets, predicted, held_out=True), predicted


def test_all_of_few() -> None:
    found, predicted = rows_of(MOST_ROWS)
    assert found.rows.tolist() == [3 * place for place in range(MOST_ROWS)]
    told = scores(found.targets, predicted)
    assert np.mean((found.lower <= found.targets) & (found.targets <= found.upper)) == told.coverage[str(LEVEL)]
    assert np.array_equal(found.std, predicted.std())


def test_an_even_sample_of_many() -> None:
    found, predicted = rows_of(10 * MOST_ROWS + 7)
    assert (len(found.rows), found.total) == (MOST_ROWS, 10 * MOST_ROWS + 7)
    assert found.rows[0] == 0
    assert found.rows[-1] == 3 * (found.total - 1)
    assert np.diff(found.rows).max() <= 3 * 11
    assert np.array_equal(found.mean, predicted.centre[found.rows // 3])


def test_numbers_are_short() -> None:
    found, _ = rows_of(40)
    for name, values in found.columns().items():
        assert max(len(repr(value)) for value in values) <= 15, name
    assert np.allclose(found.columns()["mean"], found.mean, rtol=1e-6)
