from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.app.routes.service import QUICK, Service, numbers, running, waves


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service with two models: `waves` (x, kind -> y) and `numbers` (a, b -> y)."""
    with running(tmp_path_factory.mktemp("service")) as found:
        for name, table in (("waves", waves()), ("numbers", numbers())):
            job = found.train(table, model=name, **QUICK)
            assert job["state"] == "succeeded", job
        yield found


@pytest.fixture(scope="module")
def document(service: Service) -> dict[str, Any]:
    """The OpenAPI document."""
    found: dict[str, Any] = service.client.get("/openapi.json").json()
    return found


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[Service]:
    """A service with nothing in it."""
    with running(tmp_path) as found:
        yield found
