"""Rows predicted together: draws of the latent function over all of them, and their sum or mean with its error bar.

A model of several targets has draws and a total for each, and sums over the targets of each row or of all rows, by the
correlation of the targets' errors (`core.predict.targets`). Where that is unknown for two targets, as they have too few
rows in common, no sum over targets is answered, and draws are independent of each other.

Unlike the arrays of `app.services.predict.run` these depend on which rows are asked for together, so that no request is
batched with another, and rows with missing cells, of which each is a mixture, have no part in it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import numpy as np

from app.errors import InvalidRequestError
from app.services.predict.array_names import of_target, target_of
from app.services.predict.loaded_model import LoadedModel
from app.services.predict.options import PredictOptions
from app.services.predict.run import answer_arrays, interval_bases
from core.arrays import FloatArray
from core.errors import MeanOnlyError
from core.predict.calibration import IntervalBasis
from core.predict.joint import MOST_DRAWN_ROWS, MOST_TOTAL_ROWS, Total, joint_rows, total
from core.predict.targets import (
    SumOfTargets,
    TargetPart,
    joint_draws,
    nearest_correlation,
    sum_of_targets,
    total_draws,
)
from core.spec import TargetTransform

SAMPLES = "samples"
"""Name of the draws in `include`."""
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


class Over(StrEnum):
    """Scope of a total: the rows, the targets of each row, or both."""

    ROWS = "rows"
    TARGETS = "targets"
    BOTH = "both"


_BASES = (IntervalBasis.CONFORMAL, IntervalBasis.TAIL, IntervalBasis.NORMAL)
"""From what holds best."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JointOptions:
    """Contents of an answer about rows together. Raises InvalidRequestError naming the field.

    aggregate: None for the rows themselves, over: what it is over. samples: draws, 0 for none; seed: of these.
    """

    aggregate: Aggregate | None = None
    over: Over = Over.ROWS
    samples: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.samples <= MOST_SAMPLES:
            raise InvalidRequestError(f"samples: expected 1 to {MOST_SAMPLES:,}, got {self.samples}")
        if not 0 <= self.seed <= LARGEST_SEED:
            raise InvalidRequestError(f"seed: expected 0 to {LARGEST_SEED}, got {self.seed}")


def joint_options(
    aggregate: Aggregate | None,
    samples: int | None,
    seed: int | None,
    include: frozenset[str],
    over: Over = Over.ROWS,
) -> JointOptions | None:
    """Return the options of a request; None where it asks for nothing about rows together."""
    if aggregate is None and over is not Over.ROWS:  # its default is as if it were left out
        raise InvalidRequestError("over: goes with `aggregate`")
    if aggregate is None and samples is None and SAMPLES not in include:
        if seed:
            raise InvalidRequestError("seed: goes with `samples`")
        return None
    if samples is not None and samples < 1:
        raise InvalidRequestError(f"samples: expected 1 to {MOST_SAMPLES:,}, got {samples}")
    count = samples or (DEFAULT_SAMPLES if SAMPLES in include else 0)
    return JointOptions(aggregate=aggregate, over=over, samples=count, seed=seed or 0)


def joint_arrays(
    model: LoadedModel, inputs: FloatArray, options: PredictOptions, joint: JointOptions
) -> dict[str, FloatArray]:
    """Return the arrays of an answer: those of `answer_arrays` and a `sample_0`, .. for each draw; of a total one
    number in each, with `latent_std`. Those of several targets have the names of `of_target`; of a sum over targets
    there is one, with a number for each row or for all.

    Raises InvalidRequestError and CoreError for what cannot be answered.
    """
    _check(model, inputs, joint)
    if joint.aggregate is not None:
        return _total_arrays(model, inputs, options, joint)
    found = answer_arrays(model, inputs, options)
    for place, draws in enumerate(_row_draws(model, inputs, joint)):
        found |= {of_target(name, place): draw for name, draw in _named(draws).items()}
    return found


def total_json(
    model: LoadedModel,
    arrays: Mapping[str, FloatArray],
    options: PredictOptions,
    joint: JointOptions,
    rows: int,
) -> dict[str, Any]:
    """Return the fields of an answer about a total of so many rows: of several targets an object by target where they
    differ, of a sum over targets a list with a number for each row, or one number."""
    content: dict[str, Any] = {"aggregate": joint.aggregate, "rows": rows}
    if joint.over is not Over.ROWS:
        content["over"] = joint.over
        plain = all(map(_is_plain, model.every_target))
        least = weakest(model, options)
        return content | _fields(least, arrays, options, plain=plain, listed=joint.over is Over.TARGETS)
    if model.others is None:
        return content | _fields(model, arrays, options, plain=_is_plain(model))
    for place, each in enumerate(model.every_target):
        own = {target_of(name)[0]: array for name, array in arrays.items() if target_of(name)[1] == place}
        for field, value in _fields(each, own, options, plain=_is_plain(each)).items():
            if field in ("interval", "quantiles"):
                content[field] = value
            else:
                content.setdefault(field, {})[each.schema.target] = value
    return content


def weakest(model: LoadedModel, options: PredictOptions) -> LoadedModel:
    """Return the model of the target whose intervals have the weakest basis, alone: those of a sum over targets hold
    no better."""

    def rank(each: LoadedModel) -> list[int]:
        return [_BASES.index(IntervalBasis(basis)) for basis in interval_bases(each, options)]

    return replace(max(model.every_target, key=rank), others=None)


def drawn_json(arrays: Mapping[str, FloatArray], *, total: bool = False) -> dict[str, Any]:
    """Return the field of the draws, a list for each, or a number for each of a total; nothing where there are none."""
    draws = [array for name, array in arrays.items() if name.startswith(SAMPLE)]
    if not draws:
        return {}
    return {SAMPLES: [float(draw[0]) for draw in draws] if total else draws}


def _fields(
    model: LoadedModel, arrays: Mapping[str, FloatArray], options: PredictOptions, *, plain: bool, listed: bool = False
) -> dict[str, Any]:
    numbers: dict[str, Any] = {name: array if listed else float(array[0]) for name, array in arrays.items()}
    content: dict[str, Any] = {"mean": numbers["mean"]}
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
        content["method"] = "exact" if plain else SAMPLES
    if options.quantiles:
        values = [numbers[f"quantile_{probability!r}"] for probability in options.quantiles]
        content |= {"quantiles": options.quantiles, "quantile_values": values}
    return content | drawn_json(arrays, total=not listed)


def _check(model: LoadedModel, inputs: FloatArray, joint: JointOptions) -> None:
    what = "aggregate" if joint.aggregate is not None else SAMPLES
    if joint.over is not Over.ROWS and model.others is None:
        raise InvalidRequestError(f"over: the model has one target, {model.schema.target!r}; leave it out")
    if not len(inputs) and joint.aggregate is not None:
        raise InvalidRequestError("aggregate: expected at least one row, got none")
    missing = np.flatnonzero(np.isnan(inputs).any(axis=1))
    if len(missing):
        raise InvalidRequestError(f"{what}: row {missing[0]} has a missing cell, and rows together need every value")
    plain = all(map(_is_plain, model.every_target))
    of_rows = joint.aggregate is None or joint.over is Over.TARGETS
    most = MOST_TOTAL_ROWS if plain and not (of_rows and joint.samples) else MOST_DRAWN_ROWS
    if len(inputs) > most:
        of = "" if plain else " of a transformed target"
        raise InvalidRequestError(f"{what}: at most {most:,} rows{of} at once, got {len(inputs):,}")
    targets = len(model.every_target)
    numbers = joint.samples * (len(inputs) if of_rows else 1) * targets
    if numbers > MOST_NUMBERS:
        times = "" if targets == 1 else f" and {targets} targets"
        raise InvalidRequestError(
            f"samples: at most {MOST_NUMBERS:,} numbers at once, and {joint.samples:,} draws of {len(inputs):,} rows"
            f"{times} are {numbers:,}"
        )


def _is_plain(model: LoadedModel) -> bool:
    return model.predictor.transform.kind is TargetTransform.NONE


def _total_arrays(
    model: LoadedModel, inputs: FloatArray, options: PredictOptions, joint: JointOptions
) -> dict[str, FloatArray]:
    odd = sorted(options.include - {"latent_std", "median"})
    if odd:
        raise InvalidRequestError(f"include: a total has no {odd[0]!r}")
    bare = any(each.predictor.mean_only for each in model.every_target)
    if bare and (options.needs_variance or joint.samples):
        raise MeanOnlyError
    with np.errstate(over="ignore", invalid="ignore"):  # looked for below
        if bare or options.mean_only:
            found = _mean_arrays(model, inputs, joint)
        elif joint.over is Over.ROWS:
            found = _totals_of_targets(model, inputs, options, joint)
        else:
            found = _sum_arrays(model, inputs, options, joint)
    for numbers in found.values():
        _finite(numbers)
    return found


def _mean_arrays(model: LoadedModel, inputs: FloatArray, joint: JointOptions) -> dict[str, FloatArray]:
    means = np.stack([each.predictor.mean(inputs) for each in model.every_target])  # (t, m)
    if joint.over is not Over.TARGETS:
        means = (means @ _weights(joint, len(inputs)))[:, None]
    if joint.over is not Over.ROWS:
        return {"mean": _weights(joint, len(means)) @ means}
    return {of_target("mean", place): mean for place, mean in enumerate(means)}


def _totals_of_targets(
    model: LoadedModel, inputs: FloatArray, options: PredictOptions, joint: JointOptions
) -> dict[str, FloatArray]:
    totals = _totals(model, inputs, joint)
    found: dict[str, FloatArray] = {}
    draws = total_draws(totals, _correlation(model), joint.samples, np.random.default_rng(joint.seed))
    for place, (each, drawn) in enumerate(zip(totals, draws, strict=True)):
        numbers = _numbers(TargetPart.of_total(each), options) | _named(drawn[:, None])
        found |= {of_target(name, place): array for name, array in numbers.items()}
    return found


def _sum_arrays(
    model: LoadedModel, inputs: FloatArray, options: PredictOptions, joint: JointOptions
) -> dict[str, FloatArray]:
    correlation = _correlation(model, known=True)
    weights = _weights(joint, len(correlation))
    if joint.over is Over.BOTH:
        totals = _totals(model, inputs, joint)
        parts = [TargetPart.of_total(each) for each in totals]
        random = np.random.default_rng(joint.seed)
        draws = [each[:, None] for each in total_draws(totals, correlation, joint.samples, random)]
    else:
        parts = [TargetPart.of_rows(each.predictor.predict(inputs)) for each in model.every_target]
        draws = _row_draws(model, inputs, joint) if joint.samples else []
    found = _numbers(sum_of_targets(parts, correlation, weights), options)
    if joint.samples:
        found |= _named(np.asarray(np.tensordot(weights, np.stack(draws), axes=1)))
    return found


def _totals(model: LoadedModel, inputs: FloatArray, joint: JointOptions) -> list[Total]:
    weights = _weights(joint, len(inputs))
    return [total(each.predictor, inputs, weights) for each in model.every_target]


def _weights(joint: JointOptions, count: int) -> FloatArray:
    return np.full(count, 1.0 if joint.aggregate is Aggregate.SUM else 1.0 / count)


def _row_draws(model: LoadedModel, inputs: FloatArray, joint: JointOptions) -> list[FloatArray]:
    """Draws of the rows of each target, (count, m)."""
    rows = [joint_rows(each.predictor, inputs) for each in model.every_target]
    return joint_draws(rows, _correlation(model), joint.samples, np.random.default_rng(joint.seed))


def _correlation(model: LoadedModel, *, known: bool = False) -> FloatArray:
    """Correlation of the targets' errors, none where it is unknown; InvalidRequestError if it has to be `known`."""
    found = model.error_correlation
    unknown = np.argwhere(np.isnan(found))
    if known and len(unknown):
        first, second = (model.every_target[place].schema.target for place in unknown[0])
        raise InvalidRequestError(
            f"over: the correlation of the errors of {first!r} and {second!r} is unknown, for they have too few rows "
            "in common"
        )
    return nearest_correlation(np.nan_to_num(found, nan=0.0))


def _numbers(found: TargetPart | SumOfTargets, options: PredictOptions) -> dict[str, FloatArray]:
    numbers = {"mean": found.mean, "std": found.std}
    for level in options.interval_levels:
        suffix = "" if options.one_interval else f"_{level!r}"
        numbers["lower" + suffix], numbers["upper" + suffix] = found.interval(level)
    for probability in options.quantiles:
        numbers[f"quantile_{probability!r}"] = found.quantile(probability)
    numbers["latent_std"] = found.latent_std
    if "median" in options.include:
        numbers["median"] = found.quantile(0.5)
    return numbers


def _named(draws: FloatArray) -> dict[str, FloatArray]:
    return {f"{SAMPLE}{number}": draw for number, draw in enumerate(_finite(draws))}


def _finite(numbers: FloatArray) -> FloatArray:
    if not np.isfinite(numbers).all():
        raise InvalidRequestError("the rows' numbers are so large that the prediction is not a finite number")
    return numbers
