"""`/models/{name}/versions/{v}/held-out`, `/importance` and `/report`: how well a version predicts, and by what."""

from typing import Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field
from starlette.responses import HTMLResponse, Response

from app.routes.encode import negotiate
from app.routes.http.answers import json_answer, problems
from app.routes.http.bodies import CSV, header
from app.routes.http.fields import ModelName, ModelVersion
from app.routes.http.fields import NamePath as Name
from app.routes.http.fields import NumberPath as Number
from app.routes.http.fields import TargetQuery as Target
from app.routes.http.services import in_heavy_thread, services

router = APIRouter(tags=["models"])

HTML = "text/html"
_COLUMNS = ("target", "mean", "std", "lower", "upper")


class HeldOutBody(BaseModel):
    """Rows that a version had not seen, as it predicted them: up to 500, evenly spread over all of them."""

    model: ModelName
    version: ModelVersion
    name: str = Field(description="Of the target.")
    held_out: bool = Field(description="Held out for the report; false: each left out of the fit that predicted it.")
    total: int = Field(description="How many such rows there were.")
    interval: float = Field(description="Level of `lower` and `upper`.")
    rows: list[int] = Field(description="0-based row numbers of the upload.")
    target: list[float] = Field(description="The truth.")
    mean: list[float] = Field(description="Predictive means.")
    std: list[float] = Field(description="Standard deviations of new observations.")
    lower: list[float] = Field(description="Lower ends of the intervals.")
    upper: list[float] = Field(description="Upper ends of the intervals.")


class FeatureImportanceBody(BaseModel):
    """Importance of a feature."""

    name: str = Field(description="Name of the feature.")
    importance: float = Field(description="Root mean square change of the mean, in the target's unit.")


class FeatureShareBody(BaseModel):
    """Share of a feature in the variance of the mean."""

    name: str = Field(description="Name of the feature.")
    alone: float = Field(description="Sobol' index of first order: by this column alone.")
    with_others: float = Field(description="Total index: by it and by all that it does together with others.")
    standard_error: float = Field(description="Of `with_others`; 0 where it is in closed form.")


class VarianceSharesBody(BaseModel):
    """Sobol' indices of the mean of the learnt target, its columns drawn independently as they are distributed in
    training."""

    method: Literal["closed form", "sampled"] = Field(description="How the totals were found.")
    spread: float = Field(description="Standard deviation of the mean whose square is shared out.")
    columns: list[FeatureShareBody] = Field(description="The largest total first.")


class FeatureEffectBody(BaseModel):
    """Average effect of a feature, at some of its values."""

    name: str = Field(description="Name of the feature.")
    values: list[float | int | str | bool | None] = Field(description="Null: missing.")
    weights: list[float] = Field(description="Shares of the training rows that each value stands for.")
    effect: list[float] = Field(description="Mean at each value, the other columns drawn independently.")
    effect_target: list[float] = Field(description="The same in the target's unit.")


class EffectsBody(BaseModel):
    """Average effects (partial dependence)."""

    model: ModelName
    version: ModelVersion
    target: str = Field(description="Column that is predicted.")
    scale: str = Field(description="On which averages are taken: `target`, or the transform that it was learnt in.")
    average: float = Field(description="Mean where all columns are drawn independently, on that scale.")
    average_target: float = Field(description="The same in the target's unit.")
    columns: list[FeatureEffectBody] = Field(description="Every feature, in their order.")


class ImportanceBody(BaseModel):
    """Features by how far they move the prediction."""

    model: ModelName
    version: ModelVersion
    rows: int = Field(description="How many rows were shuffled, of those that the model rests on.")
    spread: float = Field(description="Standard deviation of the mean over these rows.")
    features: list[FeatureImportanceBody] = Field(description="The largest first.")
    shares: VarianceSharesBody = Field(description="Shares of the mean's variance.")


@router.get(
    "/models/{name}/versions/{version}/held-out",
    response_class=Response,
    summary="Rows that a version had not seen, as it predicted them",
    responses={
        200: {"model": HeldOutBody, "content": {CSV: {"schema": {"type": "string"}}}},
        **problems(404, 406, 422),
    },
)
async def get_held_out(request: Request, name: Name, version: Number, target: Target = None) -> Response:
    """For plots of predicted against true values, with the 95% interval of each. JSON, or CSV by `Accept`."""
    written = negotiate(header(request, b"accept", "*/*"))
    found, rows = await in_heavy_thread(request, services(request).models.predicted_rows, name, version, target)
    if written != CSV:
        return json_answer({"model": found.model, "version": found.version, **rows})
    lines = zip(rows["rows"], *(rows[column] for column in _COLUMNS), strict=True)
    text = "".join(",".join(map(repr, line)) + "\n" for line in lines)
    return Response(f"row,{','.join(_COLUMNS)}\n{text}", media_type=CSV)


@router.get(
    "/models/{name}/versions/{version}/importance",
    response_class=Response,
    summary="How far each feature moves the prediction",
    responses={200: {"model": ImportanceBody}, **problems(404, 422)},
)
async def get_importance(request: Request, name: Name, version: Number, target: Target = None) -> Response:
    """By shuffling a feature's cells between rows that the model rests on, and as shares of the mean's variance: what
    the model looks at, not what causes what."""
    found, told = await in_heavy_thread(request, services(request).models.importance, name, version, target)
    features = [{"name": feature, "importance": moved} for feature, moved in told.features.items()]
    return json_answer(
        {
            "model": found.model,
            "version": found.version,
            "rows": told.rows,
            "spread": told.spread,
            "features": features,
            "shares": told.shares,
        }
    )


@router.get(
    "/models/{name}/versions/{version}/effects",
    response_class=Response,
    summary="Average effect of each feature",
    responses={200: {"model": EffectsBody}, **problems(404, 422)},
)
async def get_effects(request: Request, name: Name, version: Number, target: Target = None) -> Response:
    """Predictions over the values of one column, averaged over all others as they are distributed in training (partial
    dependence). What-if curves of a row are predictions: `POST /predict` with that row and other values."""
    found, told = await in_heavy_thread(request, services(request).models.effects, name, version, target)
    return json_answer({"model": found.model, "version": found.version, **told})


@router.get(
    "/models/{name}/versions/{version}/report",
    response_class=HTMLResponse,
    summary="All about a version, as a page for people",
    responses={200: {"description": "One HTML file, its plots inside.", "content": {HTML: {}}}, **problems(404, 422)},
)
async def get_report(request: Request, name: Name, version: Number, target: Target = None) -> Response:
    """Predicted against true values, reliability, residuals, importance, scores, columns and how it was trained; it
    needs no other file and no network."""
    page = await in_heavy_thread(request, services(request).models.report, name, version, target)
    return Response(page, media_type=HTML)
