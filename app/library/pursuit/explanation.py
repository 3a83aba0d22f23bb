"""Explanations of predictions, as frames of the caller's kind."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from app.cli.client import Client as ServerClient

from .errors import RefusalError, TooLargeError, server_errors
from .frames import Rows, json_rows, rows_of

AT_ONCE = 100
"""Rows of one request, at most."""
TOO_MANY = "are explained at once"
"""Words of a server that takes fewer of a model."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Explanation:
    """Why rows are predicted as they are.

    scale: on which the parts add up: `target`, or the transform that the target was learnt in; baseline: the mean where
    no column is known; parts: of each row one number a column, in the caller's kind of frame and with its index:
    `baseline` and parts together are `centre` of `rows`. summary: `mean`, `centre`, `support` and `distance` of each
    row, in the same form. nearest: of each row the nearest rows of the model, as dicts with `row`, `distance`,
    `similarity`, `adds` and `values`. rows: all of it, as `POST /models/{name}/explain` answers it.
    """

    target: str
    scale: str
    baseline: float
    baseline_target: float
    parts: Any
    summary: Any
    nearest: list[list[dict[str, Any]]]
    rows: list[dict[str, Any]]

    @classmethod
    def joined(cls, documents: Sequence[dict[str, Any]], rows: Rows) -> Self:
        """Return answers on rows one after the other as one."""
        first = documents[0]
        found = [row for document in documents for row in document["rows"]]
        columns = first["columns"]
        by_name = [{part["column"]: part["part"] for part in row["parts"]} for row in found]
        parts = {name: np.array([each[name] for each in by_name], np.float64) for name in columns}
        names = ("mean", "centre", "centre_target", "support", "distance")
        summary = {name: np.array([row[name] for row in found], np.float64) for name in names}  # None is NaN
        return cls(
            target=first["target"],
            scale=first["scale"],
            baseline=first["baseline"],
            baseline_target=first["baseline_target"],
            parts=rows.restore(parts),
            summary=rows.restore(summary),
            nearest=[row["nearest"] for row in found],
            rows=found,
        )


def explain(http: ServerClient, model: str, data: Any, nearest: int, target: str | None) -> Explanation:
    """Explain rows by a server, in as many requests as it takes, by the version that answered the first of them."""
    rows, bodies = rows_of(data), json_rows(data)
    waiting = [(start, min(start + AT_ONCE, len(bodies))) for start in range(0, max(1, len(bodies)), AT_ONCE)][::-1]
    parts: list[dict[str, Any]] = []
    of_target = b"" if target is None else b'"target": %b, ' % json.dumps(target).encode()
    while waiting:
        start, stop = waiting.pop()
        body = b'{%b"nearest": %d, "rows": [%b]}' % (of_target, nearest, b", ".join(bodies[start:stop]))
        try:
            with server_errors():
                part = http.explain(model, body)
        except RefusalError as error:
            smaller = isinstance(error, TooLargeError) or TOO_MANY in str(error)
            if not smaller or stop - start < 2:
                raise error.from_row(start, stop - start) from None
            middle = (start + stop) // 2
            waiting += [(middle, stop), (start, middle)]
            continue
        model = f"{part['model']}@{part['version']}"
        parts.append(part)
    return Explanation.joined(parts, rows)
