"""Updates of a model of 500 basis vectors by 1,000 rows, against fitting all rows again.

python -m tests.benchmarks.updates
"""

import os
import time

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from collections.abc import Callable

import numpy as np  # after the setting, which OpenBLAS reads when it loads

from app.storage import training_state
from core.data import Dataset, standardization
from core.hyperparameters import Hyperparameters
from core.predict.calibration import LeftOut, fit_calibration
from core.predict.model import Model
from core.process.rows import Rows
from core.sparse.factors import factorise
from core.sparse.posterior import posterior
from core.sparse.scheme import scheme
from core.spec import Approximation, TrainSpec
from core.train.state import NewRows, TrainingState
from core.train.update import update
from tests.benchmarks.sets import conditions

ROWS = (10_000, 100_000)
NEW, SIZE, COLUMNS, REPEATS = 1_000, 500, 8, 5


def main() -> None:
    """Prints a Markdown table."""
    print(f"{conditions()}\n")
    print("| rows before | update by 1,000 rows, s | its state read and written too, s | all rows fitted again, s |")
    print("|---|---|---|---|")
    for rows in ROWS:
        measure(rows)


def measure(rows: int) -> None:
    """Prints a line of the table."""
    dataset, model, state, spec = problem(rows)
    new = NewRows(inputs=dataset.inputs[rows:], targets=dataset.targets[rows:], numbers=np.arange(rows, rows + NEW))
    data = training_state.save([state])
    alone = seconds(lambda: update(model, state, new, spec))
    whole = seconds(lambda: training_state.save([update(model, training_state.load(data)[0], new, spec).state]))
    again = seconds(lambda: refit(dataset, model))
    print(f"| {rows:,} | {alone:.2f} | {whole:.2f} | {again:.2f} |")


def problem(rows: int) -> tuple[Dataset, Model, TrainingState, TrainSpec]:
    """A table of `rows` and NEW more, and a model of the first ones."""
    random = np.random.default_rng(0)
    inputs = random.normal(size=(rows + NEW, COLUMNS))
    targets = np.sin(inputs[:, 0]) + 0.3 * inputs[:, 1] ** 2 + 0.1 * random.normal(size=rows + NEW)
    dataset = Dataset(inputs=inputs, targets=targets)
    first = dataset.take(np.arange(rows))
    unit = standardization(first)
    theta = Hyperparameters(
        lengthscales=np.full(COLUMNS, 2.0), signal_variance=1.0, bias_variance=0.1, noise_variance=0.02
    )
    spec = TrainSpec(approximation=Approximation.PEP)
    X, y = unit.inputs(first.inputs), unit.targets(first.targets)
    factors = factorise(
        Rows(X=X, y=y, groups=dataset.groups), X[:SIZE], theta, scheme(spec.approximation, spec.power), keep=False
    )
    left_out = LeftOut(
        places=np.arange(rows),
        error=0.2 * random.normal(size=rows),
        latent_variance=np.full(rows, 0.02),
        noise_variance=np.full(rows, 0.02),
        far_variance=np.full(rows, 1.0),
    )
    served = posterior(factors, first.inputs[:SIZE], dataset.groups, unit)
    state = TrainingState.of(first.inputs, first.targets, factors, left_out)
    return dataset, Model(posterior=served, calibration=fit_calibration(left_out)), state, spec


def refit(dataset: Dataset, model: Model) -> None:
    """Fit all rows with the theta, units and basis vectors of a model."""
    unit, theta = model.posterior.standardization, model.posterior.hyperparameters
    rows = Rows(X=unit.inputs(dataset.inputs), y=unit.targets(dataset.targets), groups=dataset.groups)
    Z = unit.inputs(model.posterior.basis)
    factors = factorise(rows, Z, theta, scheme(Approximation.PEP, 0.7), keep=False)
    posterior(factors, model.posterior.basis, dataset.groups, unit)


def seconds(work: Callable[[], object]) -> float:
    """Return the median of several runs."""
    taken = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        work()
        taken.append(time.perf_counter() - began)
    return float(np.median(taken))


if __name__ == "__main__":
    main()
