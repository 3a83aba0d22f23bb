"""The unit of Figure 1: one way of choosing on one partition of kin40k, at the hyperparameters of a full GP.

A selection goes on where a smaller one ended, so that one selection of the largest size has all the others as its
first rows; those of `dmax` and `batch` do not, whose cache or pool is as large as the size asks for: they choose for
each size. Seconds of a size are those of choosing and fitting with that size, on their own, of this processor.
"""

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

import numpy as np

from core.data import Dataset, standardization
from core.hyperparameters import Hyperparameters
from core.predict.predictor import moments
from core.process.rows import Rows
from core.selection.candidates import KernelColumns
from core.selection.greedy import select
from core.selection.state import GrowingFit, Selection
from core.sparse.factors import Factors, factorise
from core.sparse.posterior import posterior
from core.sparse.scheme import scheme
from core.spec import Approximation, Method, TrainSpec
from tests.benchmarks.papers.keerthi_chu.scoring import numbers_of, scored_plainly
from tests.benchmarks.papers.units import Found
from tests.benchmarks.sets import FloatArray, full_gp_of_kin40k, load

Made = TypeVar("Made")

EACH_SIZE_ANEW = frozenset({Method.DMAX, Method.BATCH})
_KAPPA = 59


def figure_1(
    method: str, trial: int, training_rows: int, test_rows: int, sizes: Sequence[int], timed: Sequence[int]
) -> Found:
    """One method on one random partition of kin40k.

    Scores by approximation (`dtc`, and `pep` for `batch`), lists in the order of `sizes`; seconds of choosing, of
    fitting, and for `rand` of taking its rows in one by one, in the order of `timed`.
    """
    train, test = _partition(trial, training_rows, test_rows)
    dataset = Dataset(inputs=train[:, :-1], targets=train[:, -1])
    unit = standardization(dataset)
    rows = Rows(X=unit.inputs(dataset.inputs), y=unit.targets(dataset.targets), groups=dataset.groups)
    theta, kind = full_gp_of_kin40k(), Method(method)
    at = sorted(set(sizes if kind in EACH_SIZE_ANEW else timed))
    chosen: dict[int, Selection] = {}
    choosing: list[float] = []
    fitting: list[float] = []
    growing: list[float] = []
    _select(rows, theta, kind, at[0], trial)  # so that no size pays for what is done once in a process
    for size in at:
        seconds, found = _timed(partial(_select, rows, theta, kind, size, trial))
        choosing.append(seconds)
        fitting.append(_timed(partial(_fit, rows, theta, found, size, Approximation.DTC))[0])
        if kind is Method.RAND:
            growing.append(_timed(partial(_grow, rows, theta, found))[0])
        chosen[size] = found

    def score(size: int, approximation: Approximation) -> Found:
        selection = chosen[size if kind in EACH_SIZE_ANEW else at[-1]]
        factors = _fit(rows, theta, selection, size, approximation)
        basis = dataset.inputs[selection.indices[:size]]
        model = posterior(factors, basis, dataset.groups, unit)
        return scored_plainly(test[:, -1], moments(model, test[:, :-1])) | {"basis_size": len(basis)}

    kinds = [Approximation.DTC, *([Approximation.PEP] if kind is Method.BATCH else [])]
    return {
        "sizes": list(sizes),
        "scores": {kind.value: [score(size, kind) for size in sizes] for kind in kinds},
        "timed": at,
        "choosing": choosing,
        "fitting": fitting,
        "growing": growing,
        "training_rows": len(train),
        "training_deviation": float(np.std(train[:, -1])),
        "hyperparameters": numbers_of(theta),
    }


def _partition(trial: int, training_rows: int, test_rows: int) -> tuple[FloatArray, FloatArray]:
    """Random training and test rows of all 40,000."""
    split = load("kin40k")
    table = np.concatenate((split.train, split.test))
    order = np.random.default_rng(trial).permutation(len(table))
    return table[order[:training_rows]], table[order[training_rows : training_rows + test_rows]]


def _select(rows: Rows, theta: Hyperparameters, method: Method, size: int, trial: int) -> Selection:
    """Caches as in the paper: kappa for `kappa` and `sb`, the size itself for `dmax`."""
    cache = size if method is Method.DMAX else None
    spec = TrainSpec(method=method, basis_size=size, candidates=min(_KAPPA, len(rows)), cache_size=cache)
    return select(rows, theta, spec, np.random.default_rng([trial, 1]))


def _fit(rows: Rows, theta: Hyperparameters, selection: Selection, size: int, approximation: Approximation) -> Factors:
    return factorise(rows, rows.X[selection.indices[:size]], theta, scheme(approximation), keep=False)


def _grow(rows: Rows, theta: Hyperparameters, selection: Selection) -> GrowingFit:
    """The basis taken in one row at a time, as the methods that choose one by one have to: the paper's T_basic."""
    fit, columns = GrowingFit.empty(rows, theta, len(selection.indices)), KernelColumns(rows, theta)
    for index in selection.indices:
        fit.grow(int(index), columns.of(np.array([index]))[0])
    return fit


def _timed(work: Callable[[], Made]) -> tuple[float, Made]:
    begin = time.process_time()
    made = work()
    return time.process_time() - begin, made
