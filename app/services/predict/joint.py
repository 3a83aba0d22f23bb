"""Rows predicted together: draws of the latent function over all of them, and their sum or mean with its error bar.

Unlike the arrays of `app.services.predict.run` these depend on which rows are asked for together, so that no request is
batched with another, and rows with missing cells, of which each is a mixture, have no part in it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from app.errors import InvalidRequestError
from app.services.predict.loaded_model import LoadedModel
from app.services.predict.options import PredictOptions
from app.services.predict.run import answer_arrays, interval_bases
from core.arrays import FloatArray
from core.errors import MeanOnlyError
from core.predict.joint import MOST_DRAWN_ROWS, MOST_TOTAL_ROWS, Total, joint_rows, total
from core.spec import TargetTransform

SAMPLES = "samples"
"""What `include` calls the draws."""
SAMPLE = "sample_"
"""Name of a draw's array, before its number."""
DEFAULT_SAMPLES = 100
MOST_SAMPLES = 10_000
MOST_NUMBERS = 2_000_000
"""Numbers of all draws of a request."""
LARGEST_SEED = 2**63 - 1


class Aggregate(StrEnum):
    """Total of a request's rows."""

    SUM = "sum"
    MEAN = "mean"


@dataclass(frozen=True, slots=True, kw_only=True)
class JointOptions:
    """Contents of an answer about rows together. Raises InvalidRequestError naming the field.

    aggregate: None for the rows themselves. samples: draws, 0 for none; seed: of these.
    """

    aggregate: Aggregate | None = None
    samples: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.samples <= MOST_SAMPLES:
            raise InvalidRequestError(f"samples: expected 1 to {MOST_SAMPLES:,}, got {self.samples}")
        if not 0 <= self.seed <= LARGEST_SEED:
            raise InvalidRequestError(f"seed: expected 0 to {LARGEST_SEED}, got {self.seed}")


def joint_options(
    aggregate: Aggregate | None, samples: int | None, seed: int | None, include: frozenset[str]
) -> JointOptions | None:
    """Return the options of a request; None where it asks for nothing about rows together."""
    if aggregate is None and samples is None and SAMPLES not in include:
        if seed:  # its default is as if it were left out
            raise InvalidRequestError("seed: goes with `samples`")
        return None
    if samples is not None and samples < 1:
        raise InvalidRequestError(f"samples: expected 1 to {MOST_SAMPLES:,}, got {samples}")
    count = samples or (DEFAULT_SAMPLES if SAMPLES in include else 0)
    return JointOptions(aggregate=aggregate, samples=count, seed=seed or 0)


def joint_arrays(
    model: LoadedModel, inputs: FloatArray, options: PredictOptions, joint: JointOptions
) -> dict[str, FloatArray]:
    """Return the arrays of an answer: those of `answer_arrays` and a `sample_0`, .. for each draw; of a total one
    number in each, with `latent_std`.

    Raises InvalidRequestError and CoreError for what cannot be answered.
    """
    _check(model, inputs, joint)
    if joint.aggregate is not None:
        return _total_arrays(model, inputs, options, joint)
    found = answer_arrays(model, inputs, options)
    draws = joint_rows(model.predictor, inputs).draws(joint.samples, np.random.default_rng(joint.seed))
    return found | {f"{SAMPLE}{number}": draw for number, draw in enumerate(_finite(draws))}


def total_json(
    model: LoadedModel,
    arrays: Mapping[str, FloatArray],
    options: PredictOptions,
    joint: JointOptions,
    rows: int,
) -> dict[str, Any]:
    """Return the fields of an answer about a total of so many rows."""
    numbers = {name: float(array[0]) for name, array in arrays.items()}
    content: dict[str, Any] = {"aggregate": joint.aggregate, "rows": rows, "mean": numbers["mean"]}
    if "std" in numbers:
        content |= {"std": numbers["std"], "latent_std": numbers["latent_std"]}
        levels, bases = options.interval_levels, interval_bases(model, options)
        if options.one_interval:
            content |= {end: numbers[end] for end in ("lower", "upper")}
        else:
            content |= {end: [numbers[f"{end}_{level!r}"] for level in levels] for end in ("lower", "upper")}
        if "median" in numbers:
            content["median"] = numbers["median"]
        content["interval"] = levels[0] if options.one_interval else levels
        content["interval_basis"] = bases[0] if options.one_interval else bases
        plain = model.predictor.transform.kind is TargetTransform.NONE
        content["method"] = "exact" if plain else SAMPLES
    if options.quantiles:
        values = [numbers[f"quantile_{probability!r}"] for probability in options.quantiles]
        content |= {"quantiles": options.quantiles, "quantile_values": values}
    return content | drawn_json(arrays, total=True)


def drawn_json(arrays: Mapping[str, FloatArray], *, total: bool = False) -> dict[str, Any]:
    """Return the field of the draws, a list for each, or a number for each of a total; nothing where there are none."""
    draws = [array for name, array in arrays.items() if name.startswith(SAMPLE)]
    if not draws:
        return {}
    return {SAMPLES: [float(draw[0]) for draw in draws] if total else draws}


def _check(model: LoadedModel, inputs: FloatArray, joint: JointOptions) -> None:
    what = "aggregate" if joint.aggregate is not None else SAMPLES
    model.of_one_target(what)
    if not len(inputs) and joint.aggregate is not None:
        raise InvalidRequestError("aggregate: expected at least one row, got none")
    missing = np.flatnonzero(np.isnan(inputs).any(axis=1))
    if len(missing):
        raise InvalidRequestError(f"{what}: row {missing[0]} has a missing cell, and rows together need every value")
    plain = model.predictor.transform.kind is TargetTransform.NONE
    most = MOST_TOTAL_ROWS if joint.aggregate is not None and plain else MOST_DRAWN_ROWS
    if len(inputs) > most:
        of = "" if plain else " of a transformed target"
        raise InvalidRequestError(f"{what}: at most {most:,} rows{of} at once, got {len(inputs):,}")
    numbers = joint.samples * (1 if joint.aggregate is not None else len(inputs))
    if numbers > MOST_NUMBERS:
        raise InvalidRequestError(
            f"samples: at most {MOST_NUMBERS:,} numbers at once, and {joint.samples:,} draws of {len(inputs):,} rows "
            f"are {numbers:,}"
        )


def _total_arrays(
    model: LoadedModel, inputs: FloatArray, options: PredictOptions, joint: JointOptions
) -> dict[str, FloatArray]:
    weights = np.ones(len(inputs)) if joint.aggregate is Aggregate.SUM else np.full(len(inputs), 1.0 / len(inputs))
    odd = sorted(options.include - {"latent_std", "median"})
    if odd:
        raise InvalidRequestError(f"include: a total has no {odd[0]!r}")
    predictor = model.predictor
    if predictor.mean_only and (options.needs_variance or joint.samples):
        raise MeanOnlyError
    with np.errstate(over="ignore", invalid="ignore"):  # looked for below
        if predictor.mean_only or options.mean_only:
            numbers = {"mean": float(weights @ predictor.mean(inputs))}
        else:
            numbers = _numbers(total(predictor, inputs, weights), options, joint)
    _finite(np.array([*numbers.values()]))
    return {name: np.array([number]) for name, number in numbers.items()}


def _numbers(found: Total, options: PredictOptions, joint: JointOptions) -> dict[str, float]:
    numbers = {"mean": found.mean, "std": found.std}
    for level in options.interval_levels:
        suffix = "" if options.one_interval else f"_{level!r}"
        numbers["lower" + suffix], numbers["upper" + suffix] = found.interval(level)
    for probability in options.quantiles:
        numbers[f"quantile_{probability!r}"] = found.quantile(probability)
    numbers["latent_std"] = found.latent_std
    if "median" in options.include:
        numbers["median"] = found.quantile(0.5)
    draws = found.latent_draws(joint.samples, np.random.default_rng(joint.seed))
    return numbers | {f"{SAMPLE}{number}": draw for number, draw in enumerate(draws.tolist())}


def _finite(numbers: FloatArray) -> FloatArray:
    if not np.isfinite(numbers).all():
        raise InvalidRequestError("the rows' numbers are so large that the prediction is not a finite number")
    return numbers
