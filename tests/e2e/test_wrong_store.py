"""A worker whose share is not mounted takes no jobs: once it took them all, and they failed without their tables."""

from pathlib import Path

import httpx
import pytest

from tests.e2e.fleet import fleet
from tests.e2e.processes import follow, job_of, submit, surface
from tests.processes import wait_until

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.timeout(150),
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at processes through /proc"),
]


def test_a_worker_with_another_store_leaves_jobs_alone(tmp_path: Path) -> None:
    right, wrong = tmp_path / "share", tmp_path / "not-mounted"
    with fleet(
        tmp_path / "fleet",
        ["api-1"],
        PURSUIT_DATABASE_URL=f"sqlite:///{tmp_path}/pursuit.db",
        PURSUIT_ARTEFACT_URL=f"file://{right}",
    ) as made:
        made.start("worker-1", PURSUIT_ARTEFACT_URL=f"file://{wrong}")
        made.ready("worker-1")
        with httpx.Client(base_url=made.url("api-1"), timeout=60.0, trust_env=False) as client:
            job = submit(client, surface(100), basis_size=10, adapt=False)
            wait_until(lambda: "no job could be claimed" in made.log("worker-1"))
            assert "does not belong to the database" in made.log("worker-1")
            assert (job_of(client, job)["state"], job_of(client, job)["attempts"]) == ("queued", 0)
            made.start("worker-2", PURSUIT_WROKERS="2")
            ended = follow(client, job)[-1]
            assert (ended["state"], ended["attempts"]) == ("succeeded", 1)
            assert "PURSUIT_WROKERS is no setting: do you mean PURSUIT_WORKERS?" in made.log("worker-2")
