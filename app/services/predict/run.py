"""A loaded model applied to inputs, and the arrays of an answer."""

from collections.abc import Mapping

import numpy as np

from app.errors import InvalidRequestError
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
        NaN in all of them.

    Raises:
        InvalidRequestError: such a row where it is refused; an array that the model does not have.
        MeanOnlyError: error bars of a model without them.
    """
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
    return {name: array for name, array in arrays.items() if name not in hidden}


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
