"""Whose fault is it: the job's, or the worker's?"""

from app.jobs.early_deaths import MAX_PAUSE_SECONDS, EarlyDeaths
from tests.app.jobs.helpers import Clock


def test_one_job_that_dies_again_and_again_is_at_fault() -> None:
    deaths = EarlyDeaths()
    for _ in range(3):
        deaths.add("a")
    assert not deaths.worker_is_at_fault()
    assert deaths.suspects == {"a"}


def test_many_jobs_in_a_row_are_not_and_their_deaths_are_forgiven_once() -> None:
    deaths = EarlyDeaths()
    for job in ("a", "b", "b", "c"):
        assert not deaths.worker_is_at_fault()
        deaths.add(job)
    assert deaths.worker_is_at_fault()
    assert deaths.forgive() == {"a": 1, "b": 2, "c": 1}
    deaths.add("b")
    assert deaths.worker_is_at_fault(), "one more is enough, as no job has shown that any can run here"
    assert deaths.forgive() == {"b": 1}


def test_a_job_that_is_done_in_between_tells_that_the_others_were_at_fault() -> None:
    deaths = EarlyDeaths()
    for job in ("a", "b", "c"):
        deaths.add(job)
    deaths.healthy()
    for job in ("a", "b", "c", "a"):
        deaths.add(job)
    assert not deaths.worker_is_at_fault()
    assert not deaths.suspects


def test_pauses_grow_to_a_minute_and_begin_anew_after_a_job() -> None:
    clock = Clock()
    deaths = EarlyDeaths(clock=lambda: clock.now)
    assert [deaths.pause() for _ in range(5)] == [10.0, 20.0, 40.0, 60.0, MAX_PAUSE_SECONDS]
    assert deaths.is_paused
    clock.now += 60.0
    assert not deaths.is_paused
    deaths.healthy()
    assert deaths.pause() == 10.0
