"""Counters, gauges and histograms of one process."""

import threading

import pytest

from app.telemetry.families import OTHER, Counter, Gauge, Histogram


def test_counts_gauges_and_histograms() -> None:
    counter = Counter("c", "help", ("a", "b"))
    counter.add(("x", "y"))
    counter.add(("x", "y"), 2.5)
    counter.add(("x", "z"))
    assert dict(counter.series()) == {("x", "y"): [3.5], ("x", "z"): [1.0]}
    gauge = Gauge("g", "help")
    gauge.set(3.0)
    gauge.set(2.0)
    assert dict(gauge.series()) == {(): [2.0]}
    histogram = Histogram("h", "help", bounds=(1.0, 2.0))
    for value in (0.5, 1.0, 1.5, 7.0):
        histogram.observe(value)
    assert dict(histogram.series()) == {(): [2.0, 1.0, 1.0, 10.0]}, "a bound is in the range below it; the sum is last"


def test_label_values_beyond_the_limit_are_counted_together() -> None:
    counter = Counter("c", "help", ("model",), max_series=3)
    for number in range(10_000):
        counter.add((f"m{number}",))
    counter.add(("m1",))
    assert dict(counter.series()) == {("m0",): [1.0], ("m1",): [2.0], ("m2",): [1.0], (OTHER,): [9_997.0]}


def test_labels_must_be_those_of_the_family() -> None:
    with pytest.raises(ValueError, match="labels"):
        Counter("c", "help", ("a",)).add(("x", "y"))


def test_threads_lose_no_count() -> None:
    counter = Counter("c", "help")

    def count() -> None:
        for _ in range(5_000):
            counter.add()

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert dict(counter.series()) == {(): [20_000.0]}
