"""The specification of a request as that of the numerics, once the table's columns and rows are known."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from app.errors import Fault, InvalidRequestError
from app.services.specification import HyperparametersBody, SpecBody
from app.tables.read.names import match_names
from core.hyperparameters import Hyperparameters
from core.spec import Adaptation, BoundsRequest, Refinement, TrainSpec


def core_spec(body: SpecBody, groups: Sequence[str], rows: NDArray[np.int64] | range) -> TrainSpec:
    """Specification of the numerics; groups[g] is the column that lengthscale g belongs to, rows[i] the upload's row,
    a range where no row is named.

    Raises InvalidRequestError for lengthscales that do not cover the columns, InvalidSpecError for the rest.
    """
    if isinstance(body.mean_rows, int) and body.mean_rows > len(rows):
        message = f"spec.mean_rows: expected at most the {len(rows)} rows that are used, got {body.mean_rows}"
        raise InvalidRequestError(message, faults=[Fault(message=message, column="mean_rows")])
    return TrainSpec(
        method=body.method,
        gain=body.gain,
        basis_size=body.basis_size,
        max_basis_size=body.max_basis_size,
        approximation=body.approximation,
        power=body.power,
        kernel=body.kernel,
        adaptation=None if body.adapt is None else Adaptation(rounds=body.adapt.rounds, steps=body.adapt.steps),
        refinement=None if body.refine is None else Refinement(steps=body.refine.steps),
        bounds=None if body.bounds is None else BoundsRequest(rows=_places(body.bounds.rows, rows)),
        gap_tolerance=body.gap_tolerance,
        start=None if body.hyperparameters is None else _start(body.hyperparameters, groups),
        candidates=body.candidates,
        cache_size=body.cache_size,
        pool_size=body.pool_size,
        calibrate=body.calibrate,
        intervals=body.intervals,
        target_transform=body.target_transform,
        input_transform=body.input_transform,
        noise=body.noise,
        standardize=body.standardize,
        holdout=body.holdout,
        seed=body.seed,
        artefact=body.artefact,
        tolerance=body.tolerance,
        precision=body.precision,
        mean_rows=body.mean_rows,
        variance=body.variance,
        effort=body.effort,
    )


def _places(asked: Sequence[int], rows: NDArray[np.int64] | range) -> tuple[int, ...]:
    """Places of the upload's rows among those that are used."""
    places = np.searchsorted(rows, asked)
    for row, place in zip(asked, places.tolist(), strict=True):
        if place == len(rows) or rows[place] != row:
            message = f"spec.bounds.rows: row {row} is not among the {len(rows)} rows that are used"
            raise InvalidRequestError(message, faults=[Fault(message=message, column="bounds.rows")])
    return tuple(places.tolist())


def _start(body: HyperparametersBody, groups: Sequence[str]) -> Hyperparameters:
    given = body.lengthscales
    meant = match_names(groups, given.keys())
    missing = [name for name in groups if name not in meant]
    unknown = [name for name in given if name not in meant.values()]
    if missing or unknown:
        parts = [f"no value for {', '.join(missing)}"] if missing else []
        parts += [f"no such input column: {', '.join(unknown)}"] if unknown else []
        message = f"spec.hyperparameters.lengthscales: {'; '.join(parts)}"
        raise InvalidRequestError(message, faults=[Fault(message=message, column="hyperparameters.lengthscales")])
    return Hyperparameters(
        lengthscales=np.array([given[meant[name]] for name in groups]),
        signal_variance=body.signal_variance,
        bias_variance=body.bias_variance,
        noise_variance=body.noise_variance,
    )
