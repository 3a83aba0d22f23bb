"""The part of `POST /predict` about rows together: draws over all of them, and their sum or mean."""

from dataclasses import replace
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from app.errors import InvalidRequestError
from app.routes.encode import encode, json_head
from app.routes.http.answers import Bytes
from app.routes.http.bodies import JSON
from app.routes.http.callers import count_rows
from app.routes.http.services import Services, in_heavy_thread
from app.services.predict.joint import JointOptions, Over, joint_arrays, total_json, weakest
from app.services.predict.json_answer import dump_json
from app.services.predict.options import OnError, PredictOptions
from app.services.predict.registry import ResolvedModel
from core.arrays import FloatArray


async def answer_joint(
    request: Request,
    app: Services,
    resolved: ResolvedModel,
    inputs: FloatArray,
    options: PredictOptions,
    joint: JointOptions,
    media_type: str,
    kept: Any = None,
) -> Response:
    """Answer for rows together. kept: columns that stand before the predictions of the rows themselves."""
    refuse_tolerance(options)
    await count_rows(request, app, resolved.name, len(inputs))
    arrays = await in_heavy_thread(request, joint_arrays, resolved.model, inputs, options, joint)
    app.metrics.predicted(resolved.name, arrays if joint.aggregate is None else {"mean": inputs[:, 0]})  # its rows
    if joint.aggregate is None:
        app.monitor.observe(resolved, inputs, arrays)
        return await in_heavy_thread(request, encode, resolved, arrays, options, media_type, kept=kept)
    rows, of_rows = len(inputs), joint.over is Over.TARGETS
    if media_type == JSON:
        return await in_heavy_thread(
            request, _encode_total, resolved, arrays, options, joint, rows, kept if of_rows else None
        )
    if joint.over is not Over.ROWS:
        resolved = replace(resolved, model=weakest(resolved.model, options))
    return await in_heavy_thread(request, encode, resolved, arrays, options, media_type, kept=kept if of_rows else None)


def _encode_total(
    resolved: ResolvedModel, arrays: Any, options: PredictOptions, joint: JointOptions, rows: int, kept: Any
) -> Response:
    content = json_head(resolved) | total_json(resolved.model, arrays, options, joint, rows)
    if kept:
        content["columns"] = {name: column.to_pylist() for name, column in kept.items()}
    return Bytes(dump_json(content, rows if joint.over is Over.TARGETS else 1), JSON)


def refuse_tolerance(options: PredictOptions) -> None:
    """Raise InvalidRequestError where rows that cannot be read were to be left out: a total would be of others."""
    if options.on_error is OnError.NULL:
        raise InvalidRequestError("on_error: `null` does not go with `aggregate` and `samples`, which need every row")
