"""Shares of a run that its steps take, about: what the bar says is done when one of them ends.

The search looks at SEARCH_ROWS rows at most, while every fit reads all rows: in a table of millions the two fits, one
without the held-out rows, are most of a run. A mean on many rows takes time with their square, the sparse model in
proportion to them. Measured on two cores with the defaults, on tables of 10,000 to 2,000,000 rows.
"""

from dataclasses import dataclass

from core.spec import TrainSpec
from core.train.mean_choice import compared_rows
from core.train.run_rows import SEARCH_ROWS

CHOICES, FULL, SPARSE = 0.2, 0.45, 0.6
"""Of a run on no more than SEARCH_ROWS: a choice of transforms; of what is left, a full process; of what is left then,
the sparse model where a mean on up to MEAN_ROWS rows follows it."""
MEAN_ROWS = 10_000
STARTED, SEARCHED, EVALUATED, FITTED = 0.1, 0.75, 0.78, 0.8
"""Where these steps of the sparse model have ended, in its part of such a run."""
FIT_MORE, REST_MORE = 0.0245, 0.004
"""What another SEARCH_ROWS rows add to each of both fits, and to all that follows, in parts of the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """choices: of a run. full, sparse: of what is left when they begin. started, searched, evaluated, fitted: where
    these steps end in the part of the sparse model: the start, the rounds, the fit without the held-out rows, the fit
    of all rows."""

    choices: float
    full: float
    sparse: float
    started: float
    searched: float
    evaluated: float
    fitted: float

    @classmethod
    def of(cls, rows: int, spec: TrainSpec) -> "Shares":
        """Return those of a table of so many rows."""
        more = max(rows / SEARCH_ROWS - 1.0, 0.0)
        whole = 1.0 + more * (2.0 * FIT_MORE + REST_MORE)
        centres = compared_rows(spec, rows)
        mean = (1.0 - SPARSE) * max(centres / MEAN_ROWS, 1.0)
        return cls(
            choices=CHOICES / (CHOICES + (1.0 - CHOICES) * whole),
            full=FULL,
            sparse=SPARSE / (SPARSE + mean) if centres else 1.0,
            started=STARTED / whole,
            searched=SEARCHED / whole,
            evaluated=(EVALUATED + more * FIT_MORE) / whole,
            fitted=(FITTED + 2.0 * more * FIT_MORE) / whole,
        )
