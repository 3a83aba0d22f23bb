"""Access of routes to the services, and to the threads they run in."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ParamSpec, TypeVar

from anyio import CapacityLimiter, to_thread
from starlette.requests import Request

from app.routes.http.body_budget import BodyBudget
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
from app.services.suggestions import Suggester
from app.services.train.training import Training
from app.services.train.updates import Updates
from app.settings import Settings
from app.storage.process_folder import ProcessFolder
from app.tables import Limits

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """The services of an application.

    table_limits: of any table; body_limits: for tables in bodies that are held in memory. heavy: bounds the threads
    that compute for long. key_ring: checks API keys; budgets, usage: count what they do. readers: those that read
    tables. bodies: the memory for bodies in progress. stopping: set when the server is told to stop, which ends streams
    that have no end of their own.
    """

    settings: Settings
    table_limits: Limits
    body_limits: Limits
    scratch: ProcessFolder
    training: Training
    updates: Updates
    datasets: Datasets
    jobs: Jobs
    followers: JobFollowers
    models: Models
    explanations: Explanations
    imports: ArtefactImport
    suggester: Suggester
    dataset_predictions: DatasetPredictions
    monitor: Monitor
    monitoring: Monitoring
    keeper: PredictionKeeper
    registry: ModelRegistry
    batcher: Batcher
    readiness: Readiness
    metrics: Metrics
    keys: Keys
    key_ring: KeyRing
    budgets: Budgets
    usage: UsageCounter
    heavy: CapacityLimiter
    readers: TableReaders
    bodies: BodyBudget
    stopping: threading.Event = field(default_factory=threading.Event)


def services(request: Request) -> Services:
    """The services of the application that this request came to."""
    found = request.app.state.services
    if not isinstance(found, Services):
        raise TypeError(f"the application's state holds {type(found).__name__} where its services should be")
    return found


async def in_thread(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run what waits for the database or the disk in a thread of the default pool."""
    return await to_thread.run_sync(lambda: work(*args, **kwargs))


async def in_heavy_thread(request: Request, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run what computes for long in one of a few threads, so that light requests never wait behind it."""
    return await to_thread.run_sync(lambda: work(*args, **kwargs), limiter=services(request).heavy)


async def in_reader_thread(request: Request, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run what reads a table in one of the threads that are for it alone. BusyError, ClientDisconnect."""
    return await services(request).readers.run(request, work, *args, **kwargs)
