"""A trained model as bytes: safetensors, so that any language can read it and nothing in it can run.

The tensors are the posterior's arrays (float64, but for the directions of a compact one), those of the second one
where the noise varies, under `noise.`, and those of a mean on rows of its own, under `mean.`. The metadata has one
entry, `pursuit`: a JSON document with the format version, the kind (full, compact or mean), the posteriors' scalars,
the calibration, the target's transform, the precision to predict in (by default float64; the tensors are float64
whatever it is), the kernel (by default gaussian) and the description of the model (schema of the columns,
specification, hyperparameters by column, report, row numbers of the basis). Numbers in it are shortest-repr and
round-trip, so saving and loading changes no bit of a prediction.

Format 1 had no kind, all were full, and R as a square; since format 2 the tensor R is its upper triangle by rows, and
there are calibration, transform and noise that varies. Format 3 is for what a reader of format 2 would leave out
unsaid, and so predict other numbers: a kernel that is not gaussian, inputs that are differences from an offset.
Format 4 has a mean on rows of its own: tensors `mean.basis` (M, p) and `mean.alpha` (M,); it shares the posterior's
theta and units. Format 5 has columns whose missing cells are integrated over: tensors `missing.rows` (D, p), which
values are taken from, and `missing.shifts` (f,), what being missing adds to a mean; or a target that was learnt as
`rank-normal`. Format 6 is a full process: the posterior's basis are all training rows, it has no R, and the tensor
`near_noise` (M,) has the noise variance of each, from the nearest of which error bars come; it may have what format 5
has. Format 7 is a file with the models of several targets, each an artefact of its own. Format 8 has inputs that are
transformed before they are standardized: the tensor `input_transform` (3, p) of centre, unit and power of each column,
which a mean shares, or `noise.input_transform` of the second posterior, or both; it may have what formats 5 and 6 have.
All else is written as format 2, which API processes of the release before read too, while they are replaced one by one.

Reading is strict: a wrong version, a missing or unknown tensor, a wrong type, a number that is not finite or a
truncated file is a BrokenArtefactError that says which.
"""

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors

from app.errors import BrokenArtefactError, NotFoundError
from app.storage.artefact_document import METADATA_KEY, PARTS, read_document, text_of, verify_digest, with_digest
from app.storage.probe import Probe
from app.storage.several_artefact import is_several, joined, parts_of, verify_several
from core.arrays import FloatArray
from core.errors import CoreError, InvalidDataError
from core.hyperparameters import KernelFamily
from core.input_transform import InputTransform
from core.predict.calibration import Calibration
from core.predict.compact import PRECISIONS, CompactPosterior, Stored, served
from core.predict.model import Model, VaryingNoise
from core.predict.transforms import Transform
from core.sparse.posterior import SparsePosterior
from core.spec import Artefact, Precision, TargetTransform

MEAN_VERSION, DONORS_VERSION, NEAR_VERSION, INPUTS_VERSION = 4, 5, 6, 8

_MAY_BE_INFINITE = frozenset({"input_scale"})  # of a column that was constant in training

_UNREADABLE = (CoreError, AttributeError, KeyError, OverflowError, TypeError, ValueError)
"""Errors of documents whose parts are of other types than they should be."""
_NOISE = "noise."
_MEAN = "mean."
_MISSING = "missing."
_DONORS, _SHIFTS = "missing.rows", "missing.shifts"
_NEAR = "near_noise"
_INPUTS = "input_transform"
PREDICTED_ROWS, TRAINING_PROFILE = "predicted_rows", "training_profile"
HIDDEN = frozenset({PREDICTED_ROWS, TRAINING_PROFILE})
"""Parts of the report that are not shown with it: rows the model had not seen, as it predicted them; and how the rows
that it was trained on are distributed."""
_OF_MEAN = ("basis", "alpha")
"""Arrays of a mean on rows of its own; it shares the others with the posterior."""
_RANGE = ("lowest", "highest")
TYPES = ("F16", "F32", "F64")
"""Types of tensors as the file names them: directions have any, all others the last."""
TARGET_NAMES = "target_names"
"""Field of the report of a model of several targets: all of them."""
ERROR_CORRELATION = "error_correlation"
"""Field of that report: `targets`, and the `correlation` of their errors of left-out rows, null where it is unknown."""
SCORES_OF = "scores_of"
"""Field of the report of an update: version of the training whose rows its scores are of."""
WEIGHTS = "weights"
"""Field of the report with the column of weights of a training whose rows have some."""
SUMMARY = ("rows", "basis_size", "target", "holdout", "leave_one_out")
"""Fields of the report that lists of versions show."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ModelArtefact:
    """One published model with its description.

    posterior: what predicts, or what expands to it. schema: how columns become inputs, as JSON. spec: what was asked,
    as JSON. hyperparameters: by column, as JSON. basis_columns: (p,) names of the inputs. basis_rows: (d,) 0-based row
    numbers of the upload, in the order chosen. gains: (d,) the criterion's value of each, None for a method without.
    report: as the job showed it, and PREDICTED_ROWS. noise, calibration, transform, precision, mean, near: see
    core.predict.model. donors: (D, p) rows that the values of missing cells are taken from, and shifts (f,) of rows
    that miss a feature (core.predict.missing), None where no row may miss any. probe: a prediction to compare with,
    None of older releases. others: the other targets of a model of several, which may be one; None for a single one.
    """

    posterior: Stored
    schema: dict[str, Any]
    spec: dict[str, Any]
    hyperparameters: dict[str, Any]
    basis_columns: tuple[str, ...]
    basis_rows: tuple[int, ...]
    gains: tuple[float | None, ...]
    report: dict[str, Any]
    noise: VaryingNoise | None = None
    calibration: Calibration = field(default_factory=Calibration)
    transform: Transform = field(default_factory=Transform)
    precision: Precision = Precision.FLOAT64
    mean: SparsePosterior | None = None
    donors: FloatArray | None = None
    shifts: FloatArray | None = None
    near: FloatArray | None = None
    probe: Probe | None = None
    others: "tuple[ModelArtefact, ...] | None" = None

    def model(self) -> Model:
        """Return the model. O(1), or O(d^3) for a compact one; CoreError where the numbers are not those of a model."""
        return Model(
            posterior=served(self.posterior),
            noise=self.noise,
            calibration=self.calibration,
            transform=self.transform,
            precision=self.precision,
            mean=self.mean,
            near=self.near,
        )

    def of_target(self, target: str | None) -> "ModelArtefact":
        """Return what is stored of one of the targets, by default the first. NotFoundError where there is none."""
        everything = (self, *(self.others or ()))
        names = [each.schema["target"] for each in everything]
        if target is None or target == names[0]:
            return self
        if target not in names:
            raise NotFoundError(f"the model has no target {target!r}; it predicts {', '.join(map(repr, names))}")
        return everything[names.index(target)]

    @property
    def mean_rows(self) -> int:
        """Rows that the mean rests on, or basis vectors."""
        return len((self.mean or self.posterior).basis)

    @property
    def kind(self) -> Artefact:
        """Kind of the artefact: full, compact or mean."""
        if isinstance(self.posterior, CompactPosterior):
            return Artefact.COMPACT
        return Artefact.MEAN if self.posterior.mean_only and self.near is None else Artefact.FULL


def save(artefact: ModelArtefact) -> bytes:
    """Encode the artefact as safetensors; the same artefact gives the same bytes."""
    if artefact.others is not None:
        return joined([save(each) for each in (replace(artefact, others=None), *artefact.others)])
    named = dict(artefact.posterior.arrays())
    if artefact.noise is not None:
        named |= {_NOISE + name: array for name, array in artefact.noise.posterior.arrays().items()}
    if artefact.mean is not None:
        named |= {_MEAN + name: getattr(artefact.mean, name) for name in _OF_MEAN}
    if artefact.donors is not None:
        named[_DONORS] = artefact.donors
    if artefact.shifts is not None:
        named[_SHIFTS] = artefact.shifts
    if artefact.near is not None:
        named[_NEAR] = artefact.near
    arrays = {name: np.ascontiguousarray(array) for name, array in named.items()}
    document = {
        "format_version": _format_version(artefact),
        "kind": artefact.kind.value,
        "shapes": {name: list(array.shape) for name, array in arrays.items()},
        "scalars": artefact.posterior.scalars(),
        "noise_scalars": None if artefact.noise is None else _noise_scalars(artefact.noise),
        "calibration": artefact.calibration.to_json(),
        "transform": artefact.transform.to_json(),
        "precision": artefact.precision.value,
        **({} if artefact.posterior.kernel is KernelFamily.GAUSSIAN else {"kernel": artefact.posterior.kernel.value}),
        **({} if artefact.probe is None else {"probe": artefact.probe.to_json()}),
        **{name: getattr(artefact, name) for name in PARTS},
    }
    text = orjson.dumps(document, option=orjson.OPT_SORT_KEYS).decode()
    return save_tensors(arrays, metadata={METADATA_KEY: with_digest(text, arrays)})


def _format_version(artefact: ModelArtefact) -> int:
    """Return the first format whose readers predict what this artefact does."""
    offsets = (feature.get("offset") for feature in artefact.schema.get("features", ()))
    other_kernel = artefact.posterior.kernel is not KernelFamily.GAUSSIAN
    noise = [] if artefact.noise is None else [artefact.noise.posterior]
    if any(len(each.input_transform.columns) for each in (_posterior(artefact.posterior), *noise)):
        return INPUTS_VERSION
    if artefact.near is not None:
        return NEAR_VERSION
    if artefact.donors is not None or artefact.transform.kind is TargetTransform.RANK_NORMAL:
        return DONORS_VERSION
    if artefact.mean is not None:
        return MEAN_VERSION
    return 3 if other_kernel or any(offset is not None for offset in offsets) else 2


def summary_of(report: Mapping[str, Any]) -> dict[str, Any]:
    """Return what lists of versions show of a report."""
    found = {name: report.get(name) for name in SUMMARY}
    return found | {name: report[name] for name in (TARGET_NAMES, SCORES_OF, WEIGHTS) if name in report}


def load(data: bytes, *, check_digest: bool = True) -> ModelArtefact:
    """Decode an artefact. BrokenArtefactError, which says what is wrong with the bytes.

    check_digest: compare the digest too, where there is one; who leaves that out calls `verify` when it has looked for
    what it can name.
    """
    text = text_of(data)
    if is_several(text):
        models = [load(part, check_digest=check_digest) for part in parts_of(data, check_digest=check_digest)]
        return replace(models[0], others=tuple(models[1:]))
    document = read_document(text)
    arrays = _arrays(data, document["shapes"])
    if "R" in arrays and arrays["R"].ndim != (2 if document["format_version"] == 1 else 1):
        raise BrokenArtefactError(
            f"tensor R: expected a square in format 1, its triangle since, got {arrays['R'].shape}"
        )
    _check_input_transforms(arrays, document["format_version"])
    kind = document["kind"]
    with _reading("kernel"):
        kernel = KernelFamily(document.get("kernel", KernelFamily.GAUSSIAN))
    with _reading("calibration"):
        calibration = Calibration.from_json(document["calibration"])
    with _reading("transform"):
        transform = Transform.from_json(document["transform"])
    with _reading("precision"):
        precision = Precision(document.get("precision", Precision.FLOAT64))
    try:
        restore = CompactPosterior.restore if kind == Artefact.COMPACT else SparsePosterior.restore
        others = (_NOISE, _MEAN, _MISSING, _NEAR)
        own = {name: array for name, array in arrays.items() if not name.startswith(others)}
        posterior: Stored = restore(own, _scalars(document["scalars"]), kernel)
        noise = _noise(arrays, document["noise_scalars"])
        mean = _mean(arrays, posterior, document["format_version"])
        near = _near(arrays, document["format_version"])
    except _UNREADABLE as error:
        raise BrokenArtefactError(f"the artefact's arrays do not make a model: {error!r}") from error
    model = ModelArtefact(
        posterior=posterior,
        noise=noise,
        calibration=calibration,
        transform=transform,
        precision=precision,
        mean=mean,
        donors=_donors(arrays, posterior, document["format_version"]),
        shifts=arrays.get(_SHIFTS),
        near=near,
        probe=Probe.from_json(document["probe"], len(posterior.basis)) if "probe" in document else None,
        schema=document["schema"],
        spec=document["spec"],
        hyperparameters=document["hyperparameters"],
        report=document["report"],
        basis_columns=tuple(document["basis_columns"]),
        basis_rows=tuple(document["basis_rows"]),
        gains=tuple(document["gains"]),
    )
    if model.kind != kind:
        raise BrokenArtefactError(
            f"the artefact's header has kind {kind!r}, its arrays are those of {model.kind.value!r}"
        )
    if check_digest:  # last: a reason that names a part says more
        verify_digest(text, arrays)
    return model


def verify(data: bytes) -> None:
    """Compare an artefact with the digest in its document; nothing where there is none. BrokenArtefactError."""
    text = text_of(data)
    if is_several(text):
        verify_several(data)
        return
    verify_digest(text, _arrays(data, read_document(text)["shapes"]))


@contextmanager
def _reading(name: str) -> Iterator[None]:
    """Say of which field an error is."""
    try:
        yield
    except _UNREADABLE as error:
        raise BrokenArtefactError(f"the artefact's header has {name} that cannot be read: {error!r:.500}") from error


def _noise_scalars(noise: VaryingNoise) -> dict[str, float]:
    return noise.posterior.scalars() | {name: getattr(noise, name) for name in _RANGE}


def _noise(arrays: dict[str, NDArray[Any]], given: dict[str, Any] | None) -> VaryingNoise | None:
    named = {name.removeprefix(_NOISE): array for name, array in arrays.items() if name.startswith(_NOISE)}
    if bool(named) is not (given is not None):
        raise BrokenArtefactError("the artefact's header and its tensors disagree on whether the noise varies")
    if given is None:
        return None
    scalars = _scalars(given)
    lowest, highest = (scalars.pop(name) for name in _RANGE)
    return VaryingNoise(posterior=SparsePosterior.restore(named, scalars), lowest=lowest, highest=highest)


def _mean(arrays: dict[str, NDArray[Any]], posterior: Stored, version: int) -> SparsePosterior | None:
    named = {name.removeprefix(_MEAN): array for name, array in arrays.items() if name.startswith(_MEAN)}
    if version < DONORS_VERSION and bool(named) is not (version == MEAN_VERSION):
        raise BrokenArtefactError(
            f"the artefact has format version {version} {'and' if named else 'without'} tensors under {_MEAN}"
        )
    if not named:
        return None
    if sorted(named) != sorted(_OF_MEAN):
        raise BrokenArtefactError(f"tensors under {_MEAN}: expected {' and '.join(_OF_MEAN)}, got {', '.join(named)}")
    return replace(_posterior(posterior).without_variance(), basis=named["basis"], alpha=named["alpha"])


def _posterior(stored: Stored) -> SparsePosterior:
    """Return a posterior, of a compact one its mean."""
    return stored.mean if isinstance(stored, CompactPosterior) else stored


def _check_input_transforms(arrays: dict[str, NDArray[Any]], version: int) -> None:
    """Refuse transforms of the inputs that are none, by the name of their tensor."""
    named = {name: arrays[name] for name in (_INPUTS, _NOISE + _INPUTS) if name in arrays}
    if bool(named) is not (version >= INPUTS_VERSION):
        found = f"and the tensor {', '.join(named)}" if named else f"without a tensor {_INPUTS}"
        raise BrokenArtefactError(f"the artefact has format version {version} {found}")
    for name, table in named.items():
        basis = arrays.get(name.removesuffix(_INPUTS) + "basis")
        try:
            transform = InputTransform(table=table)
        except InvalidDataError as error:
            raise BrokenArtefactError(f"tensor {name}: {str(error).removeprefix(f'{_INPUTS}: ')}") from error
        if basis is not None and transform.table.shape[1:] != basis.shape[1:]:
            raise BrokenArtefactError(f"tensor {name}: expected the columns of the basis, got shape {table.shape}")


def _donors(arrays: dict[str, NDArray[Any]], posterior: Stored, version: int) -> FloatArray | None:
    rows = arrays.get(_DONORS)
    there = {rows is not None, _SHIFTS in arrays}
    if len(there) > 1 or (rows is not None and version < DONORS_VERSION):
        raise BrokenArtefactError(
            f"the artefact has format version {version} {'without' if rows is None else 'and'} tensors under {_MISSING}"
        )
    if rows is not None and (rows.ndim != 2 or not len(rows) or rows.shape[1] != posterior.basis.shape[1]):
        raise BrokenArtefactError(f"tensor {_DONORS}: expected rows as those of the basis, got shape {rows.shape}")
    return rows


def _near(arrays: dict[str, NDArray[Any]], version: int) -> NDArray[Any] | None:
    if version < INPUTS_VERSION and (_NEAR in arrays) is not (version >= NEAR_VERSION):
        raise BrokenArtefactError(
            f"the artefact has format version {version} {'and' if _NEAR in arrays else 'without'} the tensor {_NEAR}"
        )
    return arrays.get(_NEAR)


def _scalars(given: dict[str, Any]) -> dict[str, float]:
    return {name: _finite(name, value) for name, value in given.items()}


def _arrays(data: bytes, shapes: dict[str, list[int]]) -> dict[str, NDArray[Any]]:
    """Return the tensors, exactly those that `shapes` announces, of their type and finite."""
    try:
        arrays = load_tensors(data)
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        cut = "; the file is cut short, or longer than its header says" if "not fully covered" in str(error) else ""
        raise BrokenArtefactError(f"the artefact's tensors cannot be read: {error}{cut}") from error
    if set(arrays) != set(shapes):
        odd = ", ".join(sorted(set(arrays) ^ set(shapes)))
        raise BrokenArtefactError(f"the artefact's tensors are not those of its header: {odd}")
    for name, array in arrays.items():
        types = PRECISIONS if name == "directions" else PRECISIONS[-1:]
        if array.dtype not in types:
            expected = " or ".join(map(str, types))
            raise BrokenArtefactError(f"tensor {name}: expected {expected}, got {array.dtype}")
        if list(array.shape) != shapes[name]:
            raise BrokenArtefactError(f"tensor {name}: expected shape {shapes[name]}, got {list(array.shape)}")
        if not np.all(np.isfinite(array) | (name.removeprefix(_NOISE) in _MAY_BE_INFINITE and array == np.inf)):
            raise BrokenArtefactError(f"tensor {name} has a number that is not finite")
    return arrays


def _finite(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise BrokenArtefactError(f"scalar {name}: expected a finite number, got {value!r}")
    return float(value)
