"""The report of a version for people, from its artefact alone."""

from collections.abc import Mapping
from typing import Any

from app.report.page import render
from app.services.effects import average_effects
from app.services.importance import importance
from app.storage.artefact import HIDDEN, PREDICTED_ROWS, ModelArtefact


def report_page(model: ModelArtefact, about: Mapping[str, Any]) -> str:
    """Return an HTML page that needs no other file and no network. about: `model`, its name, and where known `version`,
    `created_at` and `aliases`."""
    detail = {
        **about,
        "target": model.schema["target"],
        "spec": model.spec,
        "hyperparameters": model.hyperparameters,
        "report": {name: part for name, part in model.report.items() if name not in HIDDEN},
    }
    rows = model.report.get(PREDICTED_ROWS)
    found = importance(model)
    features = [{"name": name, "importance": moved} for name, moved in found.features.items()]
    return render(
        detail,
        held_out=None if rows is None else {**rows, "name": model.schema["target"]},
        effects=average_effects(model),
        importance={"rows": found.rows, "features": features, "shares": found.shares},
    )
