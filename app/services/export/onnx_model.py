"""A published version as an ONNX model: mean, std, lower and upper as the service answers, to rounding, in float64."""

import json
from collections.abc import Mapping
from dataclasses import asdict

from app.errors import InvalidRequestError
from app.services.export.graph import MOST_BYTES, Graph, Value
from app.services.export.onnx_inputs import OUTPUTS, encode_inputs, ports
from app.services.export.onnx_process import noise_variance, process_mean, process_moments
from app.services.export.onnx_target import GraphTarget
from app.services.export.target import TargetNumbers
from app.storage.artefact import ModelArtefact
from app.tables import Schema
from core.predict.calibration import Calibration
from core.predict.model import Model


def onnx_model(stored: ModelArtefact, *, label: str, level: float) -> bytes:
    """Return the file.

    Args:
        stored: of one version.
        label: name of the version in the file.
        level: of the interval from `lower` to `upper`.

    Raises InvalidRequestError that says what of the model ONNX does not express.
    """
    schema, model = Schema.from_json(stored.schema), stored.model()
    if schema.integrates:
        raise InvalidRequestError(
            "format: this model integrates over missing cells, for which ONNX has no operators; ask for numpy"
        )
    graph = Graph()
    encoded = encode_inputs(graph, schema)
    target = GraphTarget(TargetNumbers.of(model.transform, model.calibration, level))
    for output, value in _answers(model, target, encoded.inputs).items():
        graph.output(output, value + encoded.refused)
    data = graph.encode(
        name=label,
        text=f"Predicts {schema.target} as the model {label} does.",
        metadata=_metadata(schema, model, level),
    )
    if len(data) > MOST_BYTES:
        raise InvalidRequestError(f"format: as ONNX the model has {len(data):,} bytes, and its files at most 2^31 - 1")
    return data


def _answers(model: Model, target: GraphTarget, inputs: Value) -> dict[str, Value]:
    """Return each output, (m, 1)."""
    if model.near is None and model.posterior.mean_only:
        return {"mean": target.mean(process_mean(model.mean or model.posterior, inputs), None)}
    centre, latent = process_moments(model, inputs)
    calibration = model.calibration
    scaled = _stretched(model, calibration, latent)
    variance = scaled + calibration.noise_scale * noise_variance(model, inputs)
    lower, upper = target.interval(centre, variance)
    values = (target.mean(centre, variance), target.std(centre, variance), lower, upper)
    return dict(zip(OUTPUTS, values, strict=True))


def _stretched(model: Model, calibration: Calibration, latent: Value) -> Value:
    """Return the calibrated latent variance."""
    far = model.posterior.far_variance * model.posterior.target_scale**2
    if far <= 0.0:  # no prior far away (SoR)
        return latent * calibration.latent_scale
    share = (latent / far).at_most(1.0)
    return latent * calibration.latent_scale / (share * (calibration.latent_scale - 1.0) + 1.0)


def _metadata(schema: Schema, model: Model, level: float) -> Mapping[str, str]:
    given = [{**asdict(port), "kind": port.kind.value} for port in ports(schema)]
    return {
        "target": schema.target,
        "inputs": json.dumps(given, ensure_ascii=False),
        "interval": repr(level),
        "kernel": model.posterior.kernel.value,
        "refused": "rows that the service refuses, such as those with an unseen level, have NaN in every output",
    }
