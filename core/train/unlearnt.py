"""Rows that a model is not fitted to for what is missing in them: they measure how well such rows are predicted.

Scores on held-out rows are of rows that the fit could have learnt from. New rows are of both sorts, so a report scores
held-out rows together with as large a share of these, integrated over their missing cells as in any prediction.
"""

from dataclasses import dataclass, replace

import numpy as np

from core.arrays import FloatArray
from core.predict.distribution import PredictiveDistribution
from core.predict.metrics import Scores, scores
from core.predict.missing import Completion, Donors, IntegratedPredictor
from core.predict.mixture import PartlyMixed
from core.predict.model import Model, ModelPredictor
from core.predict.transforms import Transform

MOST_SCORED = 1_000
"""Such rows that are scored, at most."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class UnlearntRows:
    """inputs (u, p) in raw units, NaN in all columns of each missing feature; targets (u,) in their own unit; donors:
    where the values of missing cells come from; shifted: features whose being missing tells of the target."""

    inputs: FloatArray
    targets: FloatArray
    donors: Donors
    shifted: tuple[int, ...] = ()

    def __len__(self) -> int:
        return len(self.targets)

    def predictor(self, model: Model) -> IntegratedPredictor:
        """Return the model made ready for them."""
        return IntegratedPredictor(ModelPredictor(model), Completion(self.donors_for(model)))

    def donors_for(self, model: Model) -> Donors:
        """Return the donors in the order of their predicted targets, with the shifts that these rows show.

        Shifts are weighted least squares on errors of the learnt target, held to 0 by the weight of one row each.
        """
        learnt = ModelPredictor(replace(model, transform=Transform()))
        donors = self.donors.ordered(learnt.mean(self.donors.rows))
        if not self.shifted:
            return donors
        some = self._some(MOST_SCORED, np.random.default_rng(0))
        predicted = IntegratedPredictor(learnt, Completion(donors)).predict(some.inputs)
        mean, variance = predicted.moments()
        error = model.transform.forward(some.targets) - mean
        A = donors.missing_features(some.inputs)[:, self.shifted].astype(np.float64)
        weighted = A / variance[:, None]
        normal = weighted.T @ A + np.eye(len(self.shifted)) * np.mean(1.0 / variance)
        shifts = np.zeros(len(donors.starts) - 1)
        shifts[list(self.shifted)] = np.linalg.solve(normal, weighted.T @ error)
        return replace(donors, shifts=shifts)

    def scores(self, model: Model, random: np.random.Generator) -> Scores | None:
        """Scores of them, MOST_SCORED at most; None for none. O(K) plain predictions a row."""
        if not len(self):
            return None
        some = self._some(MOST_SCORED, random)
        return scores(some.targets, self.predictor(model).predict(some.inputs))

    def scores_beside(
        self,
        targets: FloatArray,
        predicted: PredictiveDistribution,
        model: Model,
        learnt: int,
        random: np.random.Generator,
    ) -> Scores:
        """Scores of held-out rows and of as large a share of these.

        Args:
            targets: of the held-out rows, (h,).
            predicted: their distributions.
            model: that is published.
            learnt: rows that it is fitted to, those that were held out among them.
            random: draws the share.
        """
        some = self._some(min(round(len(targets) / learnt * len(self)), MOST_SCORED), random)
        if not len(some):
            return scores(targets, predicted)
        integrated = self.predictor(model).predict(some.inputs)
        assert isinstance(integrated, PartlyMixed)  # each of these rows misses a cell
        mixed = np.arange(len(targets) + len(some)) >= len(targets)
        both = PartlyMixed(plain=predicted, mixtures=integrated.mixtures, mixed=mixed)
        return scores(np.concatenate((targets, some.targets)), both)

    def _some(self, count: int, random: np.random.Generator) -> "UnlearntRows":
        which = np.sort(random.permutation(len(self))[:count])
        return replace(self, inputs=self.inputs[which], targets=self.targets[which])
