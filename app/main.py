"""Composition of the API application and of what lives as long as it does. No logic of its own.

`create_app` is for any ASGI server; start it with OPENBLAS_NUM_THREADS=1: requests are small, and the cores belong
to training.
"""

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from anyio import CapacityLimiter, to_thread
from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from app import posix  # noqa: F401  says where the service runs before anything fails for it
from app.database.engine import Database
from app.errors import UnavailableError
from app.routes import (
    datasets,
    docs,
    evaluate,
    explain,
    health,
    help,
    inference,
    inference_document,
    insights,
    jobs,
    keys,
    metrics,
    models,
    monitoring,
    page,
    predict,
    predict_document,
    suggest,
    train,
    updates,
)
from app.routes.http import access, errors
from app.routes.http.answers import ProblemBody, problems
from app.routes.http.body_budget import BodyBudget
from app.routes.http.guard import Guard
from app.routes.http.middleware import RequestContext, Shortcut, allow_origins
from app.routes.http.services import Services
from app.routes.http.table_readers import TableReaders
from app.services.artefact_import import ArtefactImport
from app.services.dataset_predictions import DatasetPredictions
from app.services.explain.explanations import Explanations
from app.services.intake.datasets import Datasets
from app.services.job_followers import JobFollowers
from app.services.jobs import Jobs
from app.services.keys.budgets import Budgets
from app.services.keys.key_ring import KeyRing
from app.services.keys.keys import Keys
from app.services.keys.usage import UsageCounter
from app.services.metrics import Metrics
from app.services.models import Models
from app.services.monitoring.kept_predictions import PredictionKeeper
from app.services.monitoring.monitor import Monitor
from app.services.monitoring.monitoring import Monitoring
from app.services.predict.batching import Batcher
from app.services.predict.registry import ModelRegistry
from app.services.readiness import Readiness
from app.services.served_models import ServedModels
from app.services.specification import SpecBody
from app.services.suggestions import Suggester
from app.services.train.training import Training
from app.services.train.updates import Updates
from app.services.version import package_version
from app.settings import Settings, available_cores
from app.storage.locations import Locations
from app.storage.process_folder import ProcessFolder
from app.storage.stores import open_store
from app.tables import Limits
from app.telemetry.measures import Measures
from app.telemetry.snapshots import SnapshotFolder
from app.telemetry.tracing import Tracing, start_tracing

log = logging.getLogger(__name__)

_RETRY_SECONDS = 2.0


def create_app(settings: Settings | None = None, *, trusted: bool = False) -> FastAPI:
    """The API for these settings (by default those of the environment). Opens nothing before it starts to serve.

    trusted: whoever reaches it owns its files anyway, and needs no key.
    """
    settings = settings or Settings()
    database = Database(settings.database)
    app = _Application(
        Measures(),
        origins=settings.allowed_origins,
        guarded=not trusted,
        title="Pursuit",
        summary="Regression with honest error bars, as a service",
        version=package_version(),
        lifespan=_lifespan,
        docs_url=None,  # FastAPI's own pages load their scripts from another host
        redoc_url=None,
    )
    app.state.database = database
    app.state.services = _services(settings, database, app.measures)
    app.router.routes[:0] = [predict.route, *page.routes, *docs.routes, *help.routes, *inference.routes]
    app.name_routes(app.router.routes)
    for module in (
        train,
        updates,
        jobs,
        models,
        insights,
        evaluate,
        explain,
        suggest,
        monitoring,
        datasets,
        keys,
        health,
        metrics,
    ):
        app.include_router(module.router)
        app.name_routes(module.router.routes)
    errors.install(app)
    _describe(app)
    return app


class _Application(FastAPI):
    """The busiest routes are outside of all that FastAPI and Starlette wrap around the others: even empty, it costs a
    tenth of a prediction."""

    def __init__(self, measures: Measures, *, origins: Sequence[str], guarded: bool, **settings: Any) -> None:
        super().__init__(**settings)
        self.measures = measures
        self._templates: dict[object, str] = {}
        inner: ASGIApp = Guard(Shortcut(super().__call__, hot=_hot), guarded=guarded)
        self._around = RequestContext(allow_origins(inner, origins) if origins else inner, measures, self._templates)

    def use_tracing(self, tracing: Tracing | None) -> None:
        """Make spans of all requests from now on."""
        self._around.tracing = tracing

    def name_routes(self, routes: Iterable[BaseRoute]) -> None:
        """Give requests to these routes the path that they are counted under."""
        for route in routes:
            if isinstance(route, Route):
                self._templates.setdefault(route.endpoint, route.path)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; the entry point of an ASGI server."""
        scope["app"] = self
        await self._around(scope, receive, send)


def _hot(method: str, path: str) -> Callable[[Request], Awaitable[Response]] | None:
    """The routes that are asked thousands of times a second."""
    if method != "POST":
        return None
    if path == "/predict":
        return predict.answer
    return inference.infer if inference.is_infer(path) else None


def _services(settings: Settings, database: Database, measures: Measures) -> Services:
    blobs = open_store(settings)
    limits = Limits(
        bytes=settings.max_table_bytes,
        rows=settings.max_rows,
        columns=settings.max_columns,
        cell=settings.max_cell_chars,
    )
    body_limits = replace(limits, bytes=min(limits.bytes, 4 * settings.max_body_bytes))  # read into memory
    registry = ModelRegistry(
        database, blobs, most_models=settings.cache_models, most_bytes=settings.cache_bytes, measures=measures
    )
    readiness = Readiness(database, blobs, ServedModels(database, registry))
    process_folder = ProcessFolder(settings.uploads)
    jobs_service, stopping = Jobs(database), threading.Event()
    models_service = Models(database, blobs)
    return Services(
        settings=settings,
        table_limits=limits,
        body_limits=body_limits,
        scratch=process_folder,
        training=Training(
            database=database,
            blobs=blobs,
            limits=limits,
            max_basis_size=settings.max_basis_size,
            scratch=process_folder.path,
            read_seconds=settings.max_read_seconds,
            read_memory=settings.read_memory,
            max_queued=settings.max_queued_jobs,
            large_rows=settings.large_table_rows,
            locations=Locations(settings.allowed_locations),
        ),
        updates=Updates(
            database=database,
            blobs=blobs,
            limits=limits,
            scratch=process_folder.path,
            read_seconds=settings.max_read_seconds,
            read_memory=settings.read_memory,
            max_queued=settings.max_queued_jobs,
        ),
        datasets=Datasets(
            database=database,
            locations=Locations(settings.allowed_locations),
            blobs=blobs,
            limits=limits,
            scratch=process_folder.path,
            read_seconds=settings.max_read_seconds,
            read_memory=settings.read_memory,
        ),
        jobs=jobs_service,
        followers=JobFollowers(jobs_service, stopping),
        stopping=stopping,
        models=models_service,
        explanations=Explanations(models_service),
        suggester=Suggester(models_service),
        imports=ArtefactImport(
            database=database,
            blobs=blobs,
            max_basis_size=settings.max_basis_size,
            max_bytes=settings.max_artefact_bytes,
        ),
        dataset_predictions=DatasetPredictions(database=database, blobs=blobs, max_queued=settings.max_queued_jobs),
        monitor=Monitor(database),
        monitoring=Monitoring(database=database, blobs=blobs),
        keeper=PredictionKeeper(database, most_bytes=settings.max_kept_predictions_bytes),
        registry=registry,
        batcher=Batcher(measures),
        readiness=readiness,
        metrics=Metrics(database, measures, SnapshotFolder(settings.metrics, measures), readiness),
        keys=Keys(database),
        key_ring=KeyRing(database, insecure=settings.insecure, private=settings.is_loopback),
        budgets=Budgets(database),
        usage=UsageCounter(database),
        heavy=CapacityLimiter(max(2, available_cores())),
        readers=TableReaders(
            max(2, available_cores()), waiting=settings.max_waiting_tables, seconds=settings.max_wait_seconds
        ),
        bodies=BodyBudget(max(settings.max_bodies_bytes, settings.max_body_bytes)),
    )


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    services: Services = app.state.services
    database: Database = app.state.database
    await to_thread.run_sync(services.scratch.open)
    await to_thread.run_sync(services.metrics.open)
    tracing = await to_thread.run_sync(start_tracing, "pursuit-api")
    assert isinstance(app, _Application)  # what create_app makes
    app.use_tracing(tracing)
    waiting = None
    if not await to_thread.run_sync(_migrate, database):
        waiting = asyncio.create_task(_migrate_when_possible(database))
    services.monitor.open()
    watching = asyncio.create_task(services.readiness.watch())
    try:
        yield
    finally:
        running = {task for task in (waiting, watching) if task is not None}
        for task in running:
            task.cancel()
        await asyncio.wait(running)
        await services.usage.close()
        await to_thread.run_sync(services.batcher.close)
        await to_thread.run_sync(services.monitor.close)
        services.registry.close()
        await to_thread.run_sync(services.metrics.close)
        if tracing is not None:
            await to_thread.run_sync(tracing.close)
        await to_thread.run_sync(database.close)
        await to_thread.run_sync(services.scratch.close)


def _migrate(database: Database) -> bool:
    """Bring the schema up to date; False if the database does not answer: the service is alive, but not ready."""
    try:
        database.migrate()
    except UnavailableError as error:
        log.warning("waiting for the database: %s", error)
        return False
    return True


async def _migrate_when_possible(database: Database) -> None:
    while not await to_thread.run_sync(_migrate, database):
        await asyncio.sleep(_RETRY_SECONDS)


def _describe(app: FastAPI) -> None:
    """Complete the OpenAPI document with what is not declared to FastAPI: the raw-body routes and shared bodies."""
    generate = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            document = generate()
            schemas = document.setdefault("components", {}).setdefault("schemas", {})
            for body in (ProblemBody, SpecBody):
                described = body.model_json_schema(ref_template="#/components/schemas/{model}")
                schemas.update(described.pop("$defs", {}))
                schemas[body.__name__] = described
            schemas.update(predict_document.SCHEMAS)
            for name in ("HTTPValidationError", "ValidationError"):  # FastAPI's own form, which is never sent here
                schemas.pop(name, None)
            for operation in (operation for path in document["paths"].values() for operation in path.values()):
                if "422" in operation["responses"]:
                    operation["responses"]["422"] = problems(422)[422]
            schemas.update(inference_document.SCHEMAS)
            document["paths"] = {**predict_document.PATHS, **inference_document.PATHS, **document["paths"]}
            access.describe(document)
            app.openapi_schema = document
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]  # FastAPI's documented way
