"""A server with a worker, for the client's tests."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pursuit import Client

from tests.app.routes.service import Service, running

KINDS = ("low", "high")


@contextmanager
def working(folder: Path, **settings: Any) -> Iterator[Service]:
    """A service that does its jobs."""
    stop = threading.Event()

    def work(service: Service) -> None:
        while not stop.wait(0.1):
            service.work()

    with running(folder, **settings) as service:
        thread = threading.Thread(target=work, args=(service,))
        thread.start()
        try:
            yield service
        finally:
            stop.set()
            thread.join()


def url(service: Service) -> str:
    return str(service.client.base_url)


def table(rows: int = 60) -> pd.DataFrame:
    """A number, a category, a date and a target, with an index of its own."""
    x = [6.0 * row / rows for row in range(rows)]
    kind = [KINDS[row * row % 3 % 2] for row in range(rows)]
    day = pd.Timestamp("2024-01-01") + pd.to_timedelta([7 * row % 50 for row in range(rows)], unit="D")
    y = [
        value * (2.0 if which == "high" else 1.0) + 0.01 * (row % 7)
        for row, (value, which) in enumerate(zip(x, kind, strict=True))
    ]
    index = pd.Index([f"r{row}" for row in range(rows)], name="row")
    return pd.DataFrame({"x": x, "kind": pd.Categorical(kind), "day": day, "y": y}, index=index)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service with nothing in it; bodies must be small."""
    with working(tmp_path_factory.mktemp("library"), max_body_bytes=10_000) as found:
        yield found


@pytest.fixture(scope="module")
def idle(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service without a worker."""
    with running(tmp_path_factory.mktemp("idle")) as found:
        yield found


@pytest.fixture
def client(service: Service) -> Iterator[Client]:
    """A client of that service."""
    with Client(url(service)) as found:
        yield found
