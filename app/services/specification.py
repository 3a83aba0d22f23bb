"""The `spec` of a training request: every field, its default, and a sentence for each way to get it wrong."""

import re
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    PlainSerializer,
    Strict,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError

from app.identifiers import NAME_PATTERN
from core.spec import (
    Approximation,
    Artefact,
    Calibrate,
    Effort,
    Gain,
    InputTransforms,
    Intervals,
    KernelChoice,
    MeanRows,
    Method,
    Noise,
    Precision,
    TargetTransform,
    Variance,
)

NAME = rf"^{NAME_PATTERN}$"
"""Names that models and aliases may have."""

NAME_RULE = "a letter or digit, then up to 63 letters, digits, dots, dashes or underscores"

_SUFFIXES = re.compile(r"(\.(csv|tsv|txt|json|jsonl|ndjson|parquet|pq|arrow|feather|xlsx|gz|zst))+$", re.IGNORECASE)

Whole = Annotated[int, Strict(), Field(strict=True)]
Number = Annotated[float, Strict(), Field(allow_inf_nan=False)]
Flag = Annotated[bool, Strict()]
Text = Annotated[str, Strict()]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=())

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, given: object) -> object:
        """null is as if the field were left out: what clients write that fill in every field."""
        if isinstance(given, Mapping):
            return {name: value for name, value in given.items() if value is not None or name not in cls.model_fields}
        return given


class _Switch:
    """Mark in the schema that true and false are taken too."""

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        found = handler(schema)
        return found | {"anyOf": [*found["anyOf"], {"type": "boolean"}]}


class AdaptationBody(_Body):
    """Budget of the hyperparameter adaptation."""

    rounds: Annotated[Whole, Field(ge=1, le=1000)] = Field(
        5, description="Selections at most, each with the theta before."
    )
    steps: Annotated[Whole, Field(ge=1, le=10_000)] = Field(20, description="Steps of the search for theta in each.")


class RefinementBody(_Body):
    """Budget of the basis vectors' own movement."""

    steps: Annotated[Whole, Field(ge=1, le=10_000)] = Field(60, description="Steps of the search at most.")


class BoundsBody(_Body):
    """Bounds on what the approximation loses; rows: of the upload, 0-based, whose error bars are bounded too."""

    rows: Annotated[list[Annotated[Whole, Field(ge=0)]], Field(max_length=1000)] = Field(
        [], description="Rows of the upload, from 0, whose error bars are bounded too."
    )


class HyperparametersBody(_Body):
    """Start of the adaptation; with `adapt: false` it stays there. In standardized units."""

    signal_variance: Annotated[Number, Field(gt=0, description="Prior variance of the function.")]
    bias_variance: Annotated[Number, Field(ge=0, description="Prior variance of its constant part.")]
    noise_variance: Annotated[Number, Field(gt=0, description="Variance of the noise.")]
    lengthscales: dict[str, Annotated[Number, Field(gt=0)]] = Field(description="Lengthscale of each column.")


def _auto(value: object) -> object:
    return None if value == "auto" else value


def _off(value: object) -> object:
    if value is False:
        return None
    return {} if value is True else value


def _switch(value: object) -> object:
    if value is False:
        return None
    return Calibrate.AUTO if value is True else value


def _decimal(value: object) -> object:
    if value not in (None, ",", "."):
        raise PydanticCustomError("decimal", '"," or "."')
    return value


def _thousands(value: object) -> object:
    if value not in (None, ",", ".", " ", "'", ""):
        raise PydanticCustomError("thousands", '",", ".", " " or "\'", or "" for none')
    return value


def _target(value: object) -> object:
    names = [value] if isinstance(value, str) or value is None else value
    if not isinstance(names, list) or not names or not all(name is None or isinstance(name, str) for name in names):
        raise PydanticCustomError("target", "the name of a column, or a list of names")
    if isinstance(value, list) and (None in names or len(set(names)) < len(names)):
        raise PydanticCustomError("target", "a list of names, each once")
    return value


def _share(value: object) -> object:
    if not (value == "auto" or isinstance(value, bool)):
        raise PydanticCustomError("share", '"auto", true or false')
    return value


def _sheet(value: object) -> object:
    number = isinstance(value, int) and not isinstance(value, bool) and value >= 1
    if not (value is None or number or (isinstance(value, str) and value.strip())):
        raise PydanticCustomError("sheet", "the name of a sheet, or its number from 1")
    return value


def _mean_rows(value: object) -> object:
    number = isinstance(value, int) and not isinstance(value, bool) and value >= 1
    if not (value is None or number or value in list(MeanRows)):
        raise PydanticCustomError("mean_rows", '"auto", "all", "basis" or a whole number of at least 1')
    return value


def _spell_switch(value: Calibrate | None) -> str | Literal[False]:
    return False if value is None else value.value


def _spell(value: _Body | None) -> dict[str, Any] | Literal[False]:
    return False if value is None else value.model_dump()


def _spell_auto(value: int | None) -> int | Literal["auto"]:
    return "auto" if value is None else value


BY_HAND = (
    "method",
    "gain",
    "basis_size",
    "max_basis_size",
    "approximation",
    "power",
    "adapt",
    "refine",
    "hyperparameters",
    "candidates",
    "cache_size",
    "pool_size",
    "gap_tolerance",
    "bounds",
    "calibrate",
    "artefact",
    "precision",
)
"""Fields that choose a part of a sparse model, whose users get it, and no other, unless they ask for more."""


class SpecBody(_Body):
    """Options of a training run; every field is optional, and null is as if it were left out."""

    model: Annotated[Text, Field(pattern=NAME)] | None = Field(
        None, description=f"Name to publish under, by default the file's stem: {NAME_RULE}."
    )
    target: Annotated[str | list[str] | None, BeforeValidator(_target)] = Field(
        None,
        description='Column to predict; by default the last. A list, or a pattern such as "y*", for several: one model '
        "predicts all of them.",
    )
    share: Annotated[bool | Literal["auto"], BeforeValidator(_share)] = Field(
        "auto",
        description="Several targets: whether those of the same rows have hyperparameters and basis in common; `auto`: "
        "where hyperparameters of their own predict left-out rows no better.",
    )
    features: list[Text] | None = Field(None, description="Columns to use; by default all others.")
    method: Method = Field(Method.BATCH, description="How basis vectors are chosen.")
    gain: Gain = Field(Gain.SB, description="What `batch` chooses by.")
    basis_size: Annotated[
        Annotated[Whole, Field(ge=1)] | None, BeforeValidator(_auto), PlainSerializer(_spell_auto)
    ] = Field(
        None,
        description='How many basis vectors, or "auto": all distinct rows of a table that has up to 500 and '
        "`max_basis_size`, else until the criterion no longer improves.",
        json_schema_extra={
            "anyOf": [{"type": "integer", "minimum": 1}, {"const": "auto"}, {"type": "null"}],
            "default": "auto",
        },
    )
    max_basis_size: Annotated[Whole, Field(ge=1)] = Field(500, description="Most basis vectors for `auto`.")
    approximation: Approximation = Field(Approximation.PEP, description="Predictive distribution and objective.")
    power: Annotated[Number, Field(gt=0, le=1)] = Field(
        0.7, description="Of `pep`: towards 0 it is `vfe`, at 1 `fitc`."
    )
    effort: Effort = Field(
        Effort.NORMAL,
        description="Models that are compared on left-out rows: `quick`, one sparse model, found by a short search "
        "with basis vectors that move; `normal`, also a full Gaussian process where up to 20,000 rows are trained on, "
        "and kernels; `best`, with longer searches and a full process of each kernel that may gain. `quick` "
        f"is the default where parts of a sparse model are chosen by hand: {', '.join(BY_HAND)}.",
    )
    kernel: KernelChoice = Field(
        KernelChoice.AUTO,
        description="How alike two rows are by their distance, from the smoothest function to the roughest; `auto`: "
        "the one that predicts left-out rows best, or `gaussian` where `hyperparameters` are given. With `effort: "
        "quick` the default is `gaussian`.",
    )
    adapt: Annotated[AdaptationBody | None, BeforeValidator(_off), PlainSerializer(_spell), _Switch()] = Field(
        AdaptationBody.model_validate({}), description="Budget of the model adaptation, or false."
    )
    refine: Annotated[RefinementBody | None, BeforeValidator(_off), PlainSerializer(_spell), _Switch()] = Field(
        None,
        description="Budget for moving the basis vectors after selection, or false.",
        json_schema_extra={"default": False},
    )
    hyperparameters: HyperparametersBody | None = Field(None, description="Start of the adaptation.")
    standardize: Flag = Field(True, description="Learn on zero mean and unit variance.")
    candidates: Annotated[Whole, Field(ge=1)] = Field(59, description="`kappa`: fresh candidates a step.")
    cache_size: Annotated[Whole, Field(ge=1)] | None = Field(
        None, description="Candidates kept between steps: in all for `dmax`, besides the fresh ones for the others."
    )
    pool_size: Annotated[Whole, Field(ge=1)] | None = Field(None, description="`batch`: size of the pool.")
    gap_tolerance: Annotated[Number, Field(gt=0, lt=2)] = Field(0.025, description="`sb`: where `auto` stops.")
    bounds: Annotated[BoundsBody | None, BeforeValidator(_off), PlainSerializer(_spell), _Switch()] = Field(
        None,
        description="Report bounds on what the approximation loses, or false.",
        json_schema_extra={"default": False},
    )
    calibrate: Annotated[Calibrate | None, BeforeValidator(_switch), PlainSerializer(_spell_switch)] = Field(
        Calibrate.AUTO,
        description="How rows are left out to calibrate the error bars: `loo`, `cross-fit`, `auto`, or false.",
        json_schema_extra={"anyOf": [{"enum": [*Calibrate]}, {"type": "boolean"}, {"type": "null"}], "default": "auto"},
    )
    intervals: Intervals = Field(
        Intervals.SYMMETRIC, description="`asymmetric` takes each tail from the left-out rows: for skewed errors."
    )
    target_transform: TargetTransform = Field(
        TargetTransform.AUTO,
        description="What the target is learnt as; `auto`: the one of the others under which left-out rows are "
        "predicted best, compared where the target is skewed or has long tails, and told in the report. With `effort: "
        "quick` the default is `none`. Whatever it is, a target that is never negative, or never outside of 0 to 1, "
        "in 50 rows or more is told within these bounds.",
    )
    input_transform: InputTransforms = Field(
        InputTransforms.AUTO,
        description="What columns of numbers are learnt as: `yeo-johnson`, those with a long tail, such as incomes or "
        "counts, under a power that draws it in; `auto`, so where left-out rows are then predicted better, which the "
        "report tells. With `effort: quick` the default is `none`. The inputs of a prediction stay as they are.",
    )
    noise: Noise = Field(
        Noise.AUTO, description="`input-dependent`: learnt too, kept where it predicts better; `auto`: if calibrated."
    )
    holdout: Annotated[Number, Field(ge=0, le=0.9)] = Field(0.1, description="Share of rows the report is measured on.")
    groups: Text | None = Field(
        None,
        description="Column that says which rows belong together, such as a patient: whole groups are held out and "
        "left out, and error bars are those of new ones. It is no feature unless `features` names it.",
    )
    order: Text | None = Field(
        None,
        description="Column of numbers or dates that says which rows come first: the latest are held out, and rows are "
        "predicted from earlier ones alone to calibrate the error bars, which are those of later rows.",
    )
    weights: Text | None = Field(
        None,
        description="Column of numbers that says how much each row counts: a row of weight 4 is as precise as the mean "
        "of 4 rows of weight 1, its noise variance a quarter of theirs; only ratios matter, and 0 leaves a row out. "
        "Predictions and their error bars are those of a row of mean weight. It is no feature.",
    )
    duplicates: Literal["drop", "keep"] = Field(
        "drop",
        description="Exact copies of earlier rows, inputs and a continuous target: counted once, or kept. Copies that "
        "are kept make left-out rows look known.",
    )
    missing: Literal["error", "drop", "impute"] = Field(
        "error",
        description="What to do with missing cells: refuse the table, drop the rows, or impute: rows with missing "
        "cells are predicted by integrating over what the cells may be, given the row's other columns.",
    )
    missing_values: list[Annotated[float, Strict(), Field(allow_inf_nan=False)] | Text] = Field(
        [], max_length=100, description='What else stands for a missing cell, such as -200 or "unknown".'
    )
    columns: dict[str, Literal["number", "category", "date", "day-first", "month-first", "boolean", "ignore"]] = Field(
        {},
        description="What some columns are, where the guess from their cells would be another; "
        "`day-first` and `month-first` are dates that begin so.",
    )
    dates: Literal["auto", "elapsed", "cyclic"] = Field(
        "auto",
        description="Dates as elapsed days, or also as where in the day, week and year they are; `auto`: those of the "
        "three that help to predict later rows from earlier ones.",
    )
    decimal: Annotated[Literal[",", "."] | None, BeforeValidator(_decimal)] = Field(
        None, description="Decimal mark of the numbers in text cells; by default as each column shows."
    )
    thousands: Annotated[Literal[",", ".", " ", "'", ""] | None, BeforeValidator(_thousands)] = Field(
        None, description="What groups their digits by three, empty for nothing; by default as each column shows."
    )
    sheet: Annotated[Text | Annotated[Whole, Field(ge=1)] | None, BeforeValidator(_sheet)] = Field(
        None, description="Sheet of an Excel workbook to read: its name, or its number from 1; by default the first."
    )
    max_levels: Annotated[
        Annotated[Whole, Field(ge=1, le=10_000)] | None, BeforeValidator(_auto), PlainSerializer(_spell_auto)
    ] = Field(
        None,
        description="How many values of a category are told apart, the most common ones; the others are grouped. "
        '"auto": 500, fewer where the table has many rows or many such columns.',
        json_schema_extra={
            "anyOf": [{"type": "integer", "minimum": 1, "maximum": 10_000}, {"const": "auto"}, {"type": "null"}],
            "default": "auto",
        },
    )
    unseen: Literal["error", "prior"] = Field(
        "error",
        description="An unseen category when predicting: refused, or answered as an average one, its error bar as wide "
        "as categories differ.",
    )
    artefact: Artefact = Field(
        Artefact.FULL, description="What is kept: `full`; `compact`, smaller; `mean`, smallest and without error bars."
    )
    tolerance: Annotated[Number, Field(gt=0, lt=1)] = Field(
        0.01, description="`compact`: largest relative change of an error bar on the training rows."
    )
    precision: Precision = Field(
        Precision.FLOAT64,
        description="`float32`: error bars in single precision, up to twice the predictions a second, where that "
        "changes no training row's by more than a thousandth; else `float64`, and a warning. The mean is the same. An "
        "error bar may then depend on the rows beside it in the last digits of single precision. Of a full Gaussian "
        "process the mean is summed from kernel values in single precision, where that changes it by no more than a "
        "thousandth of the error bar: about a third more rows a second, of means half as many again or more.",
    )
    mean_rows: Annotated[MeanRows | Annotated[Whole, Field(ge=1)], BeforeValidator(_mean_rows)] = Field(
        MeanRows.AUTO,
        description="Rows that the mean rests on: `basis`, the basis vectors; `all`, every row, as in a full Gaussian "
        "process; a number of them; `auto`, more rows than the basis where these predict left-out rows better. A "
        "prediction's time and the model's size grow with it. With `effort: quick` the default is `basis`.",
    )
    variance: Variance = Field(
        Variance.AUTO,
        description="Where error bars of a mean on all rows come from: `basis`, the basis vectors; `near`, the nearest "
        "training rows, which only a full Gaussian process has; `auto`: as the better candidate has it.",
    )
    seed: Annotated[Whole, Field(ge=0, lt=2**63)] = Field(0, description="Everything random follows from it.")
    priority: Annotated[Whole, Field(ge=-1000, le=1000)] = Field(0, description="Higher runs first.")


def default_name(filename: str) -> str:
    """The model's name for a file: without the suffixes of its format, what is not allowed in a name made a dash;
    `model` if nothing is left.
    """
    stem = _SUFFIXES.sub("", PurePosixPath(filename.replace("\\", "/")).name)
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", stem).strip("-._")[:64]
    return name or "model"
