"""Predictions that wait for their truth: the numbers of each row, under an id that sorts by age.

Bounded by age and by bytes, the oldest go first. One whose truth has come keeps its row without numbers, so that a
second truth is told from an unknown id.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, delete, func, insert, select, update

from app.database.tables import kept_predictions
from app.errors import NotFoundError
from app.identifiers import is_prediction_id, oldest_prediction_id

ROW_OVERHEAD_BYTES = 200
"""Bytes of a prediction beside its numbers, about."""
REMOVED_AT_ONCE = 1_000
_c = kept_predictions.c


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptPrediction:
    """One request's predictions. numbers: of its rows, as `app.services.monitoring.kept_predictions` packs them; None
    where all of its truth is there."""

    id: str
    model: str
    version: int
    rows: int
    numbers: bytes | None

    @property
    def size(self) -> int:
        """Bytes that it takes, about."""
        return len(self.numbers or b"") + ROW_OVERHEAD_BYTES


def add(connection: Connection, predictions: Sequence[KeptPrediction]) -> None:
    """Keep some predictions."""
    rows = [
        {
            "id": one.id,
            "model": one.model,
            "version": one.version,
            "rows": one.rows,
            "size": one.size,
            "numbers": one.numbers,
        }
        for one in predictions
    ]
    connection.execute(insert(kept_predictions), rows)


def hold(connection: Connection, prediction: str) -> KeptPrediction:
    """Return a prediction, which no other transaction changes until the end of this one. NotFoundError."""
    row = None
    if is_prediction_id(prediction):
        query = select(kept_predictions).where(_c.id == prediction).with_for_update()
        row = connection.execute(query).one_or_none()
    if row is None:
        raise NotFoundError(
            f"there is no kept prediction {prediction[:80]!r}: it was not kept, or is too old, or made room for newer "
            "ones; send its rows with the truth"
        )
    numbers = None if row.numbers is None else bytes(row.numbers)
    return KeptPrediction(id=row.id, model=row.model, version=row.version, rows=row.rows, numbers=numbers)


def replace_numbers(connection: Connection, prediction: str, numbers: bytes | None) -> None:
    """Keep other numbers under the same id; None: all of its truth is there."""
    values = {"numbers": numbers, "size": ROW_OVERHEAD_BYTES + len(numbers or b"")}
    connection.execute(update(kept_predictions).where(_c.id == prediction).values(values))


def total_bytes(connection: Connection) -> int:
    """Sum the bytes of all of them, about."""
    return int(connection.execute(select(func.coalesce(func.sum(_c.size), 0))).scalar_one())


def remove_oldest(connection: Connection, size: int) -> int:
    """Remove the oldest until so many bytes are free, REMOVED_AT_ONCE at most; return the bytes that were freed."""
    oldest = connection.execute(select(_c.id, _c.size).order_by(_c.id).limit(REMOVED_AT_ONCE)).all()
    freed, last = 0, ""
    for row in oldest:
        if freed >= size:
            break
        freed, last = freed + row.size, row.id
    connection.execute(delete(kept_predictions).where(_c.id <= last))
    return freed


def remove_old(connection: Connection, *, older_than: float) -> int:
    """Remove those so many seconds old; return how many."""
    return connection.execute(delete(kept_predictions).where(_c.id < oldest_prediction_id(older_than))).rowcount
