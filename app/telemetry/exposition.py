"""The text that Prometheus reads, from sums over processes and gauges of the moment."""

from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from app.telemetry.families import Family, Histogram, Labels
from app.telemetry.snapshots import Series


class _Page(Collector):
    """Numbers that one answer shows."""

    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        yield from self._metrics


def page(accept: str, families: Iterable[Family], series: Series, now: Iterable[Metric]) -> tuple[bytes, str]:
    """Return the text in the form that `accept` names, and its media type. now: further metrics of the moment."""
    registry = CollectorRegistry()
    registry.register(_Page([*metrics_of(families, series), *now]))
    encode, media_type = choose_encoder(accept)
    return encode(registry), media_type


def gauge(name: str, help_text: str, value: float, **labels: str) -> Metric:
    """One gauge of the moment."""
    metric = GaugeMetricFamily(name, help_text, labels=list(labels))
    metric.add_metric(list(labels.values()), value)
    return metric


def metrics_of(families: Iterable[Family], series: Series) -> Iterator[Metric]:
    """Yield the families with their series."""
    by_family: dict[str, list[tuple[Labels, list[float]]]] = {}
    for (name, labels), numbers in series.items():
        by_family.setdefault(name, []).append((labels, numbers))
    for family in families:
        found = by_family.get(family.name, [])
        names = list(family.labels)
        if isinstance(family, Histogram):
            histogram = HistogramMetricFamily(family.name, family.help, labels=names)
            for labels, numbers in found:
                histogram.add_metric(list(labels), _buckets(family, numbers), numbers[-1])
            yield histogram
            continue
        kind = CounterMetricFamily if family.kind == "counter" else GaugeMetricFamily
        metric = kind(family.name, family.help, labels=names)
        for labels, numbers in found:
            metric.add_metric(list(labels), numbers[0])
        yield metric


def _buckets(family: Histogram, numbers: list[float]) -> list[tuple[str, float]]:
    """Cumulative counts by upper bound, as Prometheus has them."""
    total = 0.0
    found = []
    for bound, number in zip((*map(str, family.bounds), "+Inf"), numbers, strict=False):
        total += number
        found.append((bound, total))
    return found
