"""`/metrics` of a process that serves nothing else: a worker."""

import logging
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from app.telemetry.exposition import metrics_of
from app.telemetry.measures import Measures
from app.telemetry.snapshots import SnapshotFolder

log = logging.getLogger(__name__)


class _Totals(Collector):
    """The sums over the processes of the machine, at every collection."""

    def __init__(self, measures: Measures, folder: SnapshotFolder) -> None:
        self._measures = measures
        self._folder = folder

    def collect(self) -> Iterator[Metric]:
        yield from metrics_of(self._measures.families, self._folder.total())


def serve_metrics(host: str, port: int, measures: Measures, folder: SnapshotFolder) -> None:
    """Answer on this address and port, in a thread, until the process ends. OSError where the port is taken."""
    registry = CollectorRegistry()
    registry.register(_Totals(measures, folder))
    start_http_server(port, addr=host, registry=registry)
    log.info("/metrics is answered on port %d", port)
