"""Shares of a run that its steps take, about: what the bar says is done when one of them ends.

The search looks at SEARCH_ROWS rows at most, while every fit reads all rows: in a table of millions the two fits, one
without the held-out rows, are most of a run. A mean on many rows takes time with their square, the sparse model in
proportion to them. Measured on two cores with the defaults, on tables of 10,000 to 2,000,000 rows.

Rounds end early where they settle: once the search has ended, the seconds that it took say what is left.
"""

from dataclasses import dataclass

from core.spec import TrainSpec
from core.train.calibrate import MANY_ROWS
from core.train.mean_choice import ALL_ROWS, compared_rows
from core.train.run_rows import SEARCH_ROWS

CHOICES, FULL, SPARSE = 0.2, 0.75, 0.6
"""Shares of a run on no more than SEARCH_ROWS: a choice of transforms; of what is left, a full process, beside which
the search mostly ends early; of what is left then, the sparse model where a mean on up to MEAN_ROWS rows follows."""
MEAN_ROWS, MEAN_POWER = 10_000, 0.45
"""Rows of a mean, and the power of more rows by which its time grows beside that of the sparse model:
where there is much noise, as in most large tables, a few iterations are enough."""
STARTED, BY_FOLDS, IN_CLOSED_FORM = 0.1, (0.75, 0.78, 0.8), (0.87, 0.91, 0.95)
"""Ends of the start, and of the rounds and both fits, as shares of the sparse model's part of such a run, which is
calibrated by folds or in closed form."""
SELECTING = 1.16
"""Time of a descent with the selection before it, over one without."""
CHOICES_EVALUATIONS, START_EVALUATIONS, FIT_EVALUATIONS, REST_EVALUATIONS = 12.0, 8.0, 0.95, 0.6
"""Times with more rows, in evaluations of the objective on SEARCH_ROWS: choices, the start; and for each SEARCH_ROWS of
the table each of both fits, and all that follows them."""
SEARCHING = 196.0
"""Evaluations on SEARCH_ROWS that a sparse model of as many takes."""


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
        centres = compared_rows(spec, rows)
        mean = (1.0 - SPARSE) * max(centres / MEAN_ROWS, 1.0) ** MEAN_POWER
        sparse = SPARSE / (SPARSE + mean) if centres else 1.0
        if rows <= SEARCH_ROWS:
            searching = SEARCHING * rows / SEARCH_ROWS
            closed = rows >= MANY_ROWS * spec.most_basis
            searched, evaluated, fitted = IN_CLOSED_FORM if closed else BY_FOLDS
            return cls(
                choices=CHOICES
                if rows <= ALL_ROWS
                else CHOICES_EVALUATIONS / (CHOICES_EVALUATIONS + searching / sparse),
                full=FULL,
                sparse=sparse,
                started=STARTED,
                searched=searched,
                evaluated=evaluated,
                fitted=fitted,
            )
        parts, adaptation = rows / SEARCH_ROWS, spec.adaptation
        descents = 0 if adaptation is None else (adaptation.rounds + 1) * adaptation.steps  # one round has two
        searched = START_EVALUATIONS + SELECTING * descents
        evaluated, fitted = searched + FIT_EVALUATIONS * parts, searched + 2.0 * FIT_EVALUATIONS * parts
        whole = fitted + REST_EVALUATIONS * parts
        return cls(
            choices=CHOICES_EVALUATIONS / (CHOICES_EVALUATIONS + whole / sparse),
            full=FULL,
            sparse=sparse,
            started=START_EVALUATIONS / whole,
            searched=searched / whole,
            evaluated=evaluated / whole,
            fitted=fitted / whole,
        )


def share_searched(rows: int, elapsed: float, evaluation: float) -> float | None:
    """Return the share of a run that is done when its search has ended, after so many seconds; None where the rows were
    all searched on. evaluation: seconds of an evaluation of the objective on SEARCH_ROWS rows."""
    if rows <= SEARCH_ROWS or not evaluation > 0.0:
        return None
    remaining = (2.0 * FIT_EVALUATIONS + REST_EVALUATIONS) * evaluation * rows / SEARCH_ROWS
    return elapsed / (elapsed + remaining)
