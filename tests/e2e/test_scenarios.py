"""Restarts and deaths with two APIs and two workers, in short: `python -m tests.e2e` has them at length."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import postgres
from tests.e2e import phases, scenarios
from tests.e2e.front import MISSING, PROGRAM
from tests.e2e.phases import Victim
from tests.e2e.stage import Outcome, Stage, staged

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at processes through /proc"),
]


SQLITE_DEATHS = {
    "uploading": Victim.API,
    "accepting": Victim.API,
    "queued": Victim.WORKER,
    "claiming": Victim.WORKER,
    "starting": Victim.WORKER,
    "reading": Victim.CHILD,
    "searching": Victim.WORKER,
    "evaluating": Victim.CHILD,
    "cancelling": Victim.WORKER,
    "publishing": Victim.WORKER,
    "published": Victim.WORKER,
}
POSTGRESQL_DEATHS = dict.fromkeys(SQLITE_DEATHS, Victim.DATABASE) | {
    "starting": Victim.CHILD,
    "evaluating": Victim.WORKER,
    "reading": Victim.API,
}


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def stage(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """SQLite and a folder, or PostgreSQL and a bucket."""
    if request.param == "postgresql" and postgres.programs() is None:
        pytest.skip(postgres.MISSING)
    store = "folder" if request.param == "sqlite" else "bucket"
    with staged(tmp_path_factory.mktemp(request.param), request.param, store) as made:
        yield made


def show(outcome: Outcome, capsys: pytest.CaptureFixture[str]) -> None:
    with capsys.disabled():
        print(f"\n{outcome.row()}")


@pytest.mark.skipif(PROGRAM is None, reason=MISSING)
def test_everything_is_restarted_in_turn(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    outcome = scenarios.rolling_restart(stage, clients=6, trainers=2, pause=0.05)
    assert outcome.tally.answered == outcome.tally.sent > 100
    assert len(outcome.tally.answers) > 1, "several versions have answered"
    show(outcome, capsys)


def test_ten_kills(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    outcome = scenarios.random_kills(stage, kills=10, chance=random.Random(5))
    assert all(error.startswith("worker-died") for error in outcome.findings.errors)
    show(outcome, capsys)


def test_death_in_every_phase(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    """One process dies in each phase; `python -m tests.e2e` has all combinations."""
    victims = SQLITE_DEATHS if stage.server is None else POSTGRESQL_DEATHS
    assert victims.keys() == phases.PHASES.keys()
    outcome = phases.deaths(stage, "death in each phase", victims.items())
    assert outcome.tally.answered == outcome.tally.sent
    show(outcome, capsys)


def test_a_frozen_worker_is_refused(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    outcome = scenarios.frozen_worker(stage)
    assert list(outcome.tally.jobs.values()) == ["succeeded"]
    show(outcome, capsys)


def test_a_full_disk(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    outcome = scenarios.full_disk(stage)
    assert outcome.tally.answered == outcome.tally.sent > 0
    show(outcome, capsys)


def test_an_unavailable_store(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    if stage.s3 is None:
        pytest.skip("a folder is always available")
    outcome = scenarios.silent_store(stage, seconds=5.0)
    assert outcome.tally.answered == outcome.tally.sent > 2
    show(outcome, capsys)


def test_an_unavailable_database(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    if stage.server is None:
        pytest.skip("a file is always available")
    outcome = scenarios.silent_database(stage, seconds=5.0)
    assert outcome.tally.answered == outcome.tally.sent > 1
    show(outcome, capsys)
