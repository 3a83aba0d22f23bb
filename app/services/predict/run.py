"""A loaded model applied to inputs, and the arrays of an answer."""

from collections.abc import Mapping

import numpy as np

from app.errors import InvalidRequestError
from app.services.predict.array_names import of_target, target_of
from app.services.predict.far_rows import SUPPORT
from app.services.predict.loaded_model import LoadedModel
from app.services.predict.options import DEFAULT_OPTIONS, IMPUTED, OnError, PredictOptions
from core.arrays import FloatArray
from core.errors import MeanOnlyError


def answer_arrays(
    model: LoadedModel, inputs: FloatArray, options: PredictOptions = DEFAULT_OPTIONS, *, first_row: int = 0
) -> dict[str, FloatArray]:
    """Predict inputs (m, p), and compute the arrays (m,) of the answer in the target's unit.

    Args:
        first_row: number of the first of these rows in the request, for error messages.

    Returns:
        `mean`; unless that is all that is asked for or known, `std`, `lower` and `upper` (with their level where there
        may be several, as in `lower_0.9`), `quantile_0.1` and so on, and the extra arrays by their names. `imputed` is
        there, asked for or not, where the model integrates over missing cells, and `support` where it knows far rows:
        requests share the arrays' names. Where errors are to be null, a row so extreme that a number is not finite has
        NaN in all of them. Of several targets the first one's have these names, the others' those of `of_target`.

    Raises:
        InvalidRequestError: such a row where it is refused; an array that the model does not have.
        MeanOnlyError: error bars of a model without them.
    """
    if model.others is not None:
        return _arrays_of_targets(model, inputs, options, first_row)
    return _target_arrays(model, inputs, options, first_row)


def named_arrays(model: LoadedModel, arrays: Mapping[str, FloatArray], joint: str = "_") -> dict[str, FloatArray]:
    """Return arrays by the names that they have in files: with several targets each has its target's before it."""
    if model.others is None:
        return dict(arrays)
    found: dict[str, FloatArray] = {}
    for name, array in arrays.items():
        base, place = target_of(name)
        found[base if base == IMPUTED else f"{model.schema.targets[place]}{joint}{base}"] = array
    return found


def _arrays_of_targets(
    model: LoadedModel, inputs: FloatArray, options: PredictOptions, first_row: int
) -> dict[str, FloatArray]:
    """Arrays of every target, `imputed` once; a row that one target has no number for has none of any."""
    found: dict[str, FloatArray] = {}
    for place, each in enumerate(model.every_target):
        for name, array in _target_arrays(each, inputs, options, first_row).items():
            if not (place and name == IMPUTED):
                found[of_target(name, place)] = array
    if options.on_error is OnError.NULL:
        finite = np.logical_and.reduce([np.isfinite(array) for array in found.values()])
        return found if finite.all() else {name: np.where(finite, array, np.nan) for name, array in found.items()}
    return found


def _target_arrays(
    model: LoadedModel, inputs: FloatArray, options: PredictOptions, first_row: int
) -> dict[str, FloatArray]:
    predictor = model.predictor
    with np.errstate(over="ignore", invalid="ignore"):  # looked for below
        if predictor.mean_only and options.needs_variance:
            raise MeanOnlyError
        if predictor.mean_only or options.mean_only:
            arrays = {"mean": (model.integrated or predictor).mean(inputs)}
        else:
            arrays = _distribution_arrays(model, inputs, options)
    if model.integrated is not None or IMPUTED in options.include:
        arrays[IMPUTED] = model.schema.missing_cells(inputs)
    finite = np.logical_and.reduce([np.isfinite(array) for array in arrays.values()])
    if not finite.all():
        if options.on_error is OnError.NULL:
            return {name: np.where(finite, array, np.nan) for name, array in arrays.items()}
        row = first_row + int(np.flatnonzero(~finite)[0])
        raise InvalidRequestError(f"row {row}: its numbers are so large that the prediction is not a finite number")
    return arrays


def interval_bases(model: LoadedModel, options: PredictOptions) -> tuple[str, ...]:
    """Basis of each interval of an answer: see `core.predict.calibration.IntervalBasis`."""
    return tuple(model.predictor.calibration.basis(level).value for level in options.interval_levels)


def shown_arrays(arrays: Mapping[str, FloatArray], options: PredictOptions, *, imputed: bool) -> dict[str, FloatArray]:
    """Return the arrays without those that are there for others' sake. imputed: shown although not asked for."""
    hidden = {SUPPORT} - options.include
    if not imputed:
        hidden |= {IMPUTED} - options.include
    return {name: array for name, array in arrays.items() if target_of(name)[0] not in hidden}


def _distribution_arrays(model: LoadedModel, inputs: FloatArray, options: PredictOptions) -> dict[str, FloatArray]:
    if "support" in options.include and model.predictor.predictor.reduced:
        raise InvalidRequestError("include: a model of `sor` knows no support: its prior ends where its basis does")
    distribution = (model.integrated or model.predictor).predict(inputs)
    arrays = {"mean": distribution.moments()[0], "std": distribution.std()}
    for level in options.interval_levels:
        suffix = "" if options.one_interval else f"_{level!r}"
        arrays["lower" + suffix], arrays["upper" + suffix] = distribution.interval(level)
    for probability in options.quantiles:
        arrays[f"quantile_{probability!r}"] = distribution.quantile(probability)
    if "latent_std" in options.include:
        arrays["latent_std"] = distribution.latent_std()
    if "median" in options.include:
        arrays["median"] = distribution.quantile(0.5)
    if model.knows_far or "support" in options.include:
        arrays["support"] = distribution.support
    return arrays
