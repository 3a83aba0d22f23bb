"""A published version as an ONNX model: mean, std, lower and upper as the service answers, to rounding, in float64."""

import json
from collections.abc import Mapping
from dataclasses import asdict

from app.errors import InvalidRequestError
from app.services.export.graph import MOST_BYTES, Graph, Value
from app.services.export.onnx_inputs import OUTPUTS, encode_inputs, ports
from app.services.export.onnx_missing import GraphMixtures
from app.services.export.onnx_process import noise_variance, process_mean, process_moments
from app.services.export.onnx_target import GraphTarget
from app.services.export.target import TargetNumbers
from app.storage.artefact import ModelArtefact
from app.tables import Schema
from core.predict.calibration import Calibration
from core.predict.missing import Completion, Donors
from core.predict.model import Model


def onnx_model(stored: ModelArtefact, *, label: str, level: float) -> bytes:
    """Return the file.

    Args:
        stored: of one version.
        label: name of the version in the file.
        level: of the interval from `lower` to `upper`.

    Raises InvalidRequestError that says what of the model ONNX does not express.
    """
    graph = Graph()
    targets = (stored, *(stored.others or ()))
    for each in targets:
        prefix = f"{each.schema['target']}." if stored.others is not None else ""
        for output, value in _outputs(graph, each, level).items():
            graph.output(prefix + output, value)
    names = ", ".join(each.schema["target"] for each in targets)
    data = graph.encode(
        name=label,
        text=f"Predicts {names} as the model {label} does.",
        metadata=_metadata(Schema.from_json(stored.schema), names, stored.posterior.kernel.value, level),
    )
    if len(data) > MOST_BYTES:
        raise InvalidRequestError(f"format: as ONNX the model has {len(data):,} bytes, and its files at most 2^31 - 1")
    return data


def _outputs(graph: Graph, stored: ModelArtefact, level: float) -> dict[str, Value]:
    """Return each output (m, 1) of one target."""
    schema, model = Schema.from_json(stored.schema), stored.model()
    encoded = encode_inputs(graph, schema)
    answers = _Answers(model, level)
    found = answers.plain(encoded.inputs)
    if encoded.missing is not None and stored.donors is not None and stored.shifts is not None:
        donors = Donors(rows=stored.donors, starts=schema.starts, fixed=schema.indicator, shifts=stored.shifts)
        mixtures = GraphMixtures(Completion(donors), model.calibration)
        rows = graph.op("NonZero", encoded.missing.total(1, keep=False).above(0.0)).reshaped(-1)
        some = (rows.taken_from(each) for each in (encoded.inputs, encoded.missing))
        for output, value in answers.mixed(mixtures, *some).items():
            found[output] = graph.op("ScatterElements", found[output], rows.extended(1), value, axis=0)
    return {output: value + encoded.refused for output, value in found.items()}


class _Answers:
    """Outputs of one model."""

    def __init__(self, model: Model, level: float) -> None:
        self._model, self._level = model, level
        self._target = GraphTarget(TargetNumbers.of(model.transform, model.calibration, level))
        self._mean_only = model.near is None and model.posterior.mean_only

    def plain(self, inputs: Value) -> dict[str, Value]:
        """Return each output (m, 1) of rows without missing cells."""
        target = self._target
        if self._mean_only:
            return {"mean": target.mean(self._mean(inputs), None)}
        centre, variance = self._moments(inputs)
        lower, upper = target.interval(centre, variance)
        values = (target.mean(centre, variance), target.std(centre, variance), lower, upper)
        return dict(zip(OUTPUTS, values, strict=True))

    def mixed(self, mixtures: GraphMixtures, inputs: Value, absent: Value) -> dict[str, Value]:
        """Return each output (n, 1) of rows with missing cells."""
        target, rows, shifts = self._target, mixtures.complete(inputs, absent), mixtures.shifts(absent)
        if self._mean_only:
            return {"mean": mixtures.mean(target.mean(self._mean(rows), None) + shifts)}
        centre, variance = self._moments(rows)
        centre = centre + shifts
        means = target.mean(centre, variance)
        ends = (
            mixtures.quantile(target, centre, variance, probability)
            for probability in (0.5 - 0.5 * self._level, 0.5 + 0.5 * self._level)
        )
        values = (mixtures.mean(means), mixtures.std(means, target.std(centre, variance)), *ends)
        return dict(zip(OUTPUTS, values, strict=True))

    def _mean(self, inputs: Value) -> Value:
        return process_mean(self._model.mean or self._model.posterior, inputs)

    def _moments(self, inputs: Value) -> tuple[Value, Value]:
        """Return centre and variance, calibrated and with noise."""
        model, calibration = self._model, self._model.calibration
        centre, latent = process_moments(model, inputs)
        noise = noise_variance(model, inputs)
        return centre, _stretched(model, calibration, latent) + calibration.noise_scale * noise


def _stretched(model: Model, calibration: Calibration, latent: Value) -> Value:
    """Return the calibrated latent variance."""
    far = model.posterior.far_variance * model.posterior.target_scale**2
    if far <= 0.0:  # no prior far away (SoR)
        return latent * calibration.latent_scale
    share = (latent / far).at_most(1.0)
    return latent * calibration.latent_scale / (share * (calibration.latent_scale - 1.0) + 1.0)


def _metadata(schema: Schema, targets: str, kernel: str, level: float) -> Mapping[str, str]:
    given = [{**asdict(port), "kind": port.kind.value} for port in ports(schema)]
    return {
        "target": targets,
        "inputs": json.dumps(given, ensure_ascii=False),
        "interval": repr(level),
        "kernel": kernel,
        "refused": "rows that the service refuses, such as those with an unseen level, have NaN in every output",
    }
