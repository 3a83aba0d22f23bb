"""A published version as two files: `predict.py`, some 40 lines that need numpy alone, and `model.npz`, its arrays.

The lines are put together from `numpy_pieces`: a model's file has those that it needs. Arrays are plain numbers and
text, read with `allow_pickle=False`.
"""

import io
import textwrap
import zipfile
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.errors import InvalidRequestError
from app.services.export import numpy_pieces as pieces
from app.services.export.onnx_inputs import OUTPUTS, level_table
from app.services.export.process import Process
from app.services.export.target import MOMENTS_BY_SUM, NORMAL_HALF, TargetNumbers, table_of_cdf
from app.storage.artefact import ModelArtefact
from app.tables import Feature, Kind, Schema
from app.tables.columns.dates import DateOrder, parse_date
from core.hyperparameters import KernelFamily
from core.mean.near import NEAREST
from core.predict import missing
from core.predict.calibration import STD_RANGE
from core.predict.distribution import LEAST_STD
from core.predict.missing import Completion, Donors
from core.predict.model import Model
from core.sparse.posterior import SparsePosterior
from core.spec import TargetTransform

SCRIPT, ARRAYS = "predict.py", "model.npz"
Arrays = dict[str, NDArray[Any]]
_ROWS, _MIXED_ROWS = 512, 64
_DATE_1980 = (1980, 1, 1, 0, 0, 0)


def numpy_predictor(stored: ModelArtefact, *, label: str, level: float) -> bytes:
    """Return both files as a zip; the same model gives the same bytes.

    Args:
        stored: of one version.
        label: name of the version in the script.
        level: of the interval from `lower` to `upper`.

    Raises InvalidRequestError for a model of which numpy's files do not hold the text of a level.
    """
    schema, model = Schema.from_json(stored.schema), stored.model()
    writer = _Writer(schema, model, level)
    if stored.donors is not None and stored.shifts is not None:
        donors = Donors(rows=stored.donors, starts=schema.starts, fixed=schema.indicator, shifts=stored.shifts)
        writer.add_donors(Completion(donors))
    text = writer.script(label)
    arrays = io.BytesIO()
    np.savez_compressed(arrays, **writer.arrays)  # type: ignore[arg-type]  # names are data here
    found = io.BytesIO()
    with zipfile.ZipFile(found, "w") as file:
        for member, content in ((SCRIPT, text.encode()), (ARRAYS, arrays.getvalue())):
            file.writestr(zipfile.ZipInfo(member, _DATE_1980), content, zipfile.ZIP_DEFLATED)
    return found.getvalue()


class _Writer:
    """The lines and arrays of one model."""

    def __init__(self, schema: Schema, model: Model, level: float) -> None:
        self._schema, self._model, self._level = schema, model, level
        self._numbers = TargetNumbers.of(model.transform, model.calibration, level)
        self._mean_only = model.near is None and model.posterior.mean_only
        self._completion: Completion | None = None
        self.arrays: Arrays = {}

    def add_donors(self, completion: Completion) -> None:
        """Integrate over missing cells."""
        self._completion, donors = completion, completion.donors
        self.arrays |= {
            "donors": donors.rows,
            "donor_scores": completion.z,
            "donor_centre": completion.centre,
            "donor_scale": completion.scale,
            "correlations": completion.C,
            "features": completion.features,
            "movable": completion.movable,
            "fixed": donors.fixed,
            "starts": donors.starts[:-1],
            "shifts": donors.shifts,
        }
        for place, (values, scores) in enumerate(zip(completion.values, completion.scores, strict=True)):
            self.arrays |= {f"values_{place}": values, f"scores_{place}": scores}
        if not self._mean_only:
            self.arrays["cdf_scores"], self.arrays["cdf"] = table_of_cdf(self._model.calibration)

    def script(self, label: str) -> str:
        """Return the lines."""
        noise = self._model.noise
        posteriors = [self._model.posterior, *([] if noise is None or self._mean_only else [noise.posterior])]
        parts = [
            _title(self._schema, label, self._level),
            pieces.FRACTION if any(feature.offset is not None for feature in self._schema.used) else "",
            pieces.HEAD.lstrip("\n"),
            self._inputs(),
            pieces.POWERED if any(_powered(each) != "x" for each in posteriors) else "",
            pieces.SCALED,
            pieces.KERNELS[self._model.posterior.kernel],
            self._process(),
            self._target(),
            self._answers(),
        ]
        return "".join(parts)

    def _inputs(self) -> str:
        kinds = {feature.kind for feature in self._schema.used}
        numbers = [feature for feature in self._schema.used if feature.kind is Kind.NUMBER]
        parts = []
        if numbers or Kind.BOOLEAN in kinds:
            plain = not any(
                feature.takes_missing or self._void(feature)
                for feature in self._schema.used
                if feature.kind in (Kind.NUMBER, Kind.BOOLEAN)
            )
            parts.append(pieces.PLAIN_NUMBER if plain and Kind.BOOLEAN not in kinds else pieces.NUMBER)
        parts += [text for kind, text in _PIECE_OF_KIND.items() if kind in kinds]
        if any(feature.offset is not None for feature in numbers):
            parts.append(pieces.INTEGER)
        lines = [self._line(place, feature) for place, feature in enumerate(self._schema.used)]
        body = textwrap.indent("\n".join(f"{line}," for line in lines), " " * 8)
        return "".join(parts) + f"\ndef inputs(columns):\n    return np.column_stack([\n{body}\n    ])\n"

    def _line(self, place: int, feature: Feature) -> str:
        """Return the expression of a column's inputs."""
        cells = f"columns[{feature.name!r}]"
        if feature.kind is Kind.CATEGORY:
            places, table = level_table(feature, self._schema)
            texts = np.array(list(places), dtype=np.str_)
            if texts.tolist() != list(places):
                raise InvalidRequestError(f"format: a level of {feature.name!r} ends with a zero byte")
            absent = len(feature.levels)
            refused = np.isnan(table)
            if feature.integrate:
                refused[absent] = False
            self.arrays |= {
                f"levels_{place}": texts,
                f"places_{place}": np.array(list(places.values()), np.int64),
                f"table_{place}": np.where(refused, np.inf, table),
            }
            return f"category({cells}, {place})"
        how = [f"missing={_number(_stand_in(feature))}"] if feature.takes_missing else []
        how += ["mark=True"] if feature.indicator else []
        void = self._void(feature)
        how += [f"void={void!r}"] if void else []
        if feature.kind is Kind.DATE:
            cycles = tuple(cycle.value for cycle in feature.cycles)
            return f"date({', '.join([cells, *how, *([f'cycles={cycles!r}'] if cycles else [])])})"
        if feature.offset is not None:
            return f"integer({', '.join([cells, repr(feature.offset), *how])})"
        return f"{'boolean' if feature.kind is Kind.BOOLEAN else 'number'}({', '.join([cells, *how])})"

    def _void(self, feature: Feature) -> tuple[float | int, ...]:
        """Return the values that stand for a missing cell."""
        missing_values = self._schema.missing
        if missing_values is None:
            return ()
        if feature.kind is not Kind.DATE:
            return missing_values.numbers
        order = feature.order or DateOrder.YEAR_FIRST
        times = (parse_date(text, order) for text in sorted(missing_values.texts))
        return tuple(sorted({when for when in times if when is not None}))

    def _process(self) -> str:
        model, posterior = self._model, self._model.posterior
        process = self._prepare(posterior, "")
        v0, bias = _number(process.kernel.signal_variance), _number(process.kernel.bias_variance)
        scale, shift = _number(process.target_scale), _number(process.target_shift)
        text, lines = "", [f"z = scaled({_powered(posterior)})"]
        if model.near is not None:
            self.arrays["near_noise"] = model.near
            text += pieces.NEAR.format(nearest=NEAREST, signal=v0, bias=bias)
            lines += ['R = distance(z, m["centres"])', f"k = kernel(R, {v0})", "latent = near_variance(z, R)"]
        elif not (self._mean_only and model.mean is not None):
            lines.append(f'k = kernel(distance(z, m["centres"]), {v0})')
        lines.append(_mean_line(process, "", scale, shift))
        if model.mean is not None:
            other = self._prepare(model.mean, "mean_")
            lines[-1] = f'k_mean = kernel(distance(z, m["mean_centres"]), {v0})'
            lines.append(_mean_line(other, "mean_", scale, shift))
        if self._mean_only:
            return text + self._function([*lines, "return t"])
        if model.near is None:
            self.arrays["R"] = posterior.R
            base, sign = _number(posterior.variance_base), "+" if posterior.variance_sign > 0.0 else "-"
            norms = f'np.square((k + {bias}) @ m["R"].T).sum(axis=1)'
            lines.append(f"latent = np.maximum({base} {sign} {norms}, 0)")
        lines += self._variance(scale)
        if model.noise is not None:
            self._prepare(model.noise.posterior, "noise_")
            text += "" if self._noise_kernel == "kernel" else pieces.GAUSSIAN_NOISE
        return text + self._function([*lines, "return np.stack([t, v])"])

    def _function(self, lines: list[str]) -> str:
        """Return the function of the process; with donors, which make many rows of one, it takes some at a time."""
        if self._completion is not None:
            each = f"[process(x[i : i + {_ROWS}]) for i in range(0, len(x), {_ROWS})]"
            whole = f"np.concatenate({each}, axis=-1)"
            lines = [f"if len(x) > {_ROWS}:", f"    return {whole}", *lines]
        return pieces.PROCESS.format(lines="\n    ".join(lines))

    @property
    def _noise_kernel(self) -> str:
        """Return the name of the function that is the kernel of the noise, always a Gaussian."""
        return "kernel" if self._model.posterior.kernel is KernelFamily.GAUSSIAN else "gaussian"

    def _variance(self, scale: str) -> list[str]:
        """Return the lines of the calibrated variance with noise."""
        model, posterior, calibration = self._model, self._model.posterior, self._model.calibration
        lines = [f"latent = latent * {scale} ** 2"]
        a, far = calibration.latent_scale, posterior.far_variance * posterior.target_scale**2
        if a != 1.0:
            share = "" if far <= 0.0 else f" / (1 + {_number(a - 1.0)} * np.minimum(latent / {_number(far)}, 1))"
            lines.append(f"latent = {_number(a)} * latent{share}")
        constant = posterior.noise_variance * posterior.target_scale**2 * calibration.noise_scale
        if model.noise is None:
            return [*lines, f"v = latent + {_number(constant)}"]
        own = model.noise.posterior
        process = Process.of(own)
        v0 = _number(process.kernel.signal_variance)
        return [
            *lines,
            f'n = scaled({_powered(own, "noise_")}, "noise_")',
            f'k_noise = {self._noise_kernel}(distance(n, m["noise_centres"]), {v0})',
            _mean_line(process, "noise_", _number(own.target_scale), _number(own.target_shift)),
            f"noise = np.exp(np.clip(t_noise, {_number(model.noise.lowest)}, {_number(model.noise.highest)}))",
            f"v = latent + {_number(constant)} * noise",
        ]

    def _prepare(self, posterior: SparsePosterior, prefix: str) -> Process:
        """Add a posterior's arrays; return it."""
        process = Process.of(posterior)
        if prefix != "mean_":
            self.arrays |= {f"{prefix}{name}": getattr(process, name) for name in ("shift", "scale", "roots")}
            if len(columns := process.transform.columns):
                self.arrays |= {f"{prefix}powered": columns, f"{prefix}powers": process.transform.chosen}
        if prefix or not (self._mean_only and self._model.mean is not None):
            scaled = np.ascontiguousarray(process.rows[:, :-2])
            self.arrays |= {f"{prefix}centres": scaled, f"{prefix}alpha": process.alpha}
        return process

    def _target(self) -> str:
        numbers, transform = self._numbers, self._model.transform
        kind = transform.kind
        within = pieces.WITHIN.format(lowest=_number(transform.lowest), highest=_number(transform.highest))
        if self._mean_only:
            return within
        if numbers.plain:
            return pieces.ANSWER_PLAIN.format(std_factor=_number(numbers.calibration.std_factor))
        held = {name: _number(getattr(transform, name)) for name in ("least_mean", "greatest_mean", "widest")}
        back = pieces.TRANSFORMS[kind]
        if kind is TargetTransform.YEO_JOHNSON:
            back = back.format(
                power=_number(transform.power), scale=_number(transform.scale), shift=_number(transform.shift)
            )
        elif kind is TargetTransform.RANK_NORMAL:
            back = back.format(low=_number(numbers.slopes[0]), high=_number(numbers.slopes[1]))
            self.arrays |= {"knots": numbers.knots, "cubics": numbers.coefficients}
        if kind in MOMENTS_BY_SUM:
            self.arrays |= {"nodes": numbers.nodes, "weights": numbers.weights}
            moments = pieces.MOMENTS_SUM.format(**held)
        elif kind is TargetTransform.NONE:
            moments = pieces.MOMENTS_NONE
        else:
            moments = pieces.MOMENTS_LOG.format(less=0 if kind is TargetTransform.LOG else 1, **held)
        below, above = numbers.std_interval
        answer = pieces.ANSWER.format(
            start="within(t)" if kind is TargetTransform.NONE else "t",
            std_below=_number(below),
            std_above=_number(above),
            normal_width=_number(2.0 * NORMAL_HALF),
            least_std=LEAST_STD,
            std_range=STD_RANGE,
        )
        return back + within + moments + answer

    def _answers(self) -> str:
        names = OUTPUTS[:1] if self._mean_only else OUTPUTS
        below, above = map(_number, self._numbers.interval)
        mean = "t" if self._numbers.plain else "moments(t, v)[0]"
        told = pieces.TOLD_MEAN if self._mean_only else pieces.TOLD.format(mean=mean, below=below, above=above)
        parts = [told]
        if self._completion is not None:
            components = self._completion.donors.components
            parts.append(
                pieces.MIXED.format(
                    outputs=len(names),
                    components=components,
                    least_f=missing.LEAST_F,
                    moved_bandwidth=missing.MOVED_BANDWIDTH,
                    copied_bandwidth=missing.COPIED_BANDWIDTH,
                    widenings=missing.WIDENINGS,
                    wider=missing.WIDER,
                    least_donors=missing.LEAST_DONORS,
                )
            )
            mixture = pieces.MIXTURE_MEAN if self._mean_only else pieces.MIXTURE
            parts.append(
                mixture.format(
                    components=components,
                    mean=mean,
                    lower_p=_number(0.5 - 0.5 * self._level),
                    upper_p=_number(0.5 + 0.5 * self._level),
                    below=below,
                    above=above,
                    bring_back="high" if self._numbers.plain else "within(unbounded(high))",
                )
            )
        parts.append(
            pieces.PREDICT.format(
                rows=_ROWS if self._completion is None else _MIXED_ROWS,
                columns=[feature.name for feature in self._schema.used],
                names=list(names),
                answer="told" if self._completion is None else "mixed",
            )
        )
        return "".join(parts)


_PIECE_OF_KIND: Mapping[Kind, str] = {
    Kind.BOOLEAN: pieces.BOOLEAN,
    Kind.CATEGORY: pieces.CATEGORY,
    Kind.DATE: pieces.DATE,
}


def _title(schema: Schema, label: str, level: float) -> str:
    """Return the docstring, without a character that could end it."""
    target = ascii(schema.target)[1:-1].replace('"', "'")
    return textwrap.dedent(
        f'''\
        """Predicts {target} as the model {label} does, with numpy and model.npz beside this file.

        predict({{"column": [cell, ..], ..}}) returns mean, std, and lower and upper of the {level:g} interval. Missing
        cells are None or NaN; dates are ISO 8601 text or numpy's datetime64, in UTC; NaN are rows that the service
        would refuse.
        """
        '''
    )


def _mean_line(process: Process, prefix: str, scale: str, shift: str) -> str:
    """Return the line of a mean in the unit of its target."""
    suffix = {"": "", "mean_": "_mean", "noise_": "_noise"}[prefix]
    name = "t_noise" if prefix == "noise_" else "t"
    return f'{name} = (k{suffix} @ m["{prefix}alpha"] + {_number(process.constant)}) * {scale} + {shift}'


def _powered(posterior: SparsePosterior, of: str = "") -> str:
    """Return the expression of the inputs as they are standardized."""
    if not len(posterior.input_transform.columns):
        return "x"
    return f'powered(x, "{of}")' if of else "powered(x)"


def _stand_in(feature: Feature) -> float:
    return float("nan") if feature.integrate or feature.fill is None else feature.fill


def _number(value: float) -> str:
    """Return a number as Python writes it, in parentheses where it is negative."""
    if np.isnan(value):
        return "np.nan"
    if np.isinf(value):
        return "np.inf" if value > 0.0 else "-np.inf"
    text = repr(float(value))
    return f"({text})" if text.startswith("-") else text
