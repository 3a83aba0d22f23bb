"""Explainers of the versions that were asked for last, read from the store when they are."""

import threading
from collections import OrderedDict
from typing import Any

from app.errors import BrokenArtefactError
from app.services.explain.explainer import NEAREST, Explainer
from app.services.models import Models
from app.services.predict.loaded_model import LoadedModel
from app.services.predict.registry import ResolvedModel
from core.arrays import FloatArray
from core.errors import CoreError

MOST_EXPLAINERS, MOST_BYTES = 8, 64 << 20


class Explanations:
    """Explains predictions of published versions. Thread-safe."""

    def __init__(self, models: Models) -> None:
        self._models = models
        self._kept: OrderedDict[tuple[str, str], Explainer] = OrderedDict()
        self._lock = threading.Lock()

    def explain(
        self, resolved: ResolvedModel, inputs: FloatArray, nearest: int = NEAREST, target: str | None = None
    ) -> dict[str, Any]:
        """Explain the predictions of inputs (m, p), as JSON; see `Explainer.explain`. target: of several the one that
        is explained. NotFoundError where the version has just gone, BrokenArtefactError, InvalidRequestError."""
        explainer = self._explainer(resolved, resolved.model.of_target(target))
        found = explainer.explain(inputs, nearest)
        return {"model": resolved.name, "version": resolved.version, **found}

    def _explainer(self, resolved: ResolvedModel, model: LoadedModel) -> Explainer:
        place = (resolved.reference, model.schema.target)
        with self._lock:
            known = self._kept.get(place)
            if known is not None and known.model is model:
                self._kept.move_to_end(place)
                return known
        _, stored = self._models.version(resolved.name, resolved.version, model.schema.target)
        try:
            made = Explainer.of(stored, model)
        except CoreError as error:
            raise BrokenArtefactError(f"the artefact's arrays do not make a model: {error}") from error
        with self._lock:
            self._kept[place] = made
            while len(self._kept) > 1 and (
                len(self._kept) > MOST_EXPLAINERS or sum(each.nbytes for each in self._kept.values()) > MOST_BYTES
            ):
                self._kept.popitem(last=False)
        return made
