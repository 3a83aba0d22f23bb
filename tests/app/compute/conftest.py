"""A Dask cluster of two workers, for the tests of a module."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.compute.cluster import Cluster
from tests.app.compute.processes import DaskProcesses, dask_processes


@pytest.fixture(scope="module")
def two_workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaskProcesses]:
    with dask_processes(tmp_path_factory.mktemp("dask")) as made:
        yield made


@pytest.fixture
def cluster(two_workers: DaskProcesses, tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(two_workers.address, tmp_path / "shards")
    yield made
    made.close()
