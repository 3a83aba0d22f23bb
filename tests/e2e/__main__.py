"""`python -m tests.e2e`: every scenario at length, and a table of what was sent, answered, asked again and lost.

Once over SQLite and a folder, once over PostgreSQL and a bucket; with a Dask scheduler and two Dask workers. Needs
nginx, and PostgreSQL's programs for the latter.
"""

import argparse
import random
import sys
import tempfile
from pathlib import Path

from tests import postgres
from tests.e2e import phases, scenarios
from tests.e2e.front import MISSING, PROGRAM
from tests.e2e.stage import HEADER, staged


def main() -> None:
    """Run them and print the table; an AssertionError is what was lost."""
    parser = argparse.ArgumentParser(prog="python -m tests.e2e", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--clients", type=int, default=50, help="clients that predict during the restarts")
    parser.add_argument("--trainers", type=int, default=5, help="clients that train during the restarts")
    parser.add_argument("--rounds", type=int, default=2, help="how often everything is restarted")
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0, help="of who is killed when")
    parser.add_argument("--database", choices=["sqlite", "postgresql"], action="append")
    asked = parser.parse_args()
    if PROGRAM is None:
        sys.exit(MISSING)
    databases = asked.database or ["sqlite", *(["postgresql"] if postgres.programs() is not None else [])]
    for database in databases:
        print(f"\n{database}\n{HEADER}", flush=True)
        store = "folder" if database == "sqlite" else "bucket"
        with (
            tempfile.TemporaryDirectory(prefix="pursuit-") as folder,
            staged(Path(folder), database, store, with_cluster=True) as stage,
        ):
            size = {"clients": asked.clients, "trainers": asked.trainers, "rounds": asked.rounds}
            print(scenarios.rolling_restart(stage, **size).row(), flush=True)
            outcome = scenarios.random_kills(stage, kills=asked.kills, chance=random.Random(asked.seed))
            print(outcome.row(), flush=True)
            for phase in phases.PHASES:
                outcome = phases.deaths(stage, f"death while {phase}", phases.possible(stage, phase))
                print(outcome.row(), flush=True)
            print(scenarios.frozen_worker(stage).row(), flush=True)
            print(scenarios.full_disk(stage).row(), flush=True)
            print(scenarios.lost_machines(stage).row(), flush=True)
            if stage.s3 is not None:
                print(scenarios.silent_store(stage, seconds=30.0).row(), flush=True)
            if stage.server is not None:
                print(scenarios.silent_database(stage, seconds=30.0).row(), flush=True)


if __name__ == "__main__":
    main()
