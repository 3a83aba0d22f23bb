"""The process that reads a table ends with the one that started it, and starts soon."""

import os
import subprocess
import sys
from pathlib import Path

from tests.processes import alive, children, wait_until

STARTS = """
import sys
from pathlib import Path
from app.services.intake.ingest import IngestRequest, ingest
from app.tables import Limits
folder = Path(sys.argv[1])
request = IngestRequest(stored=folder / "stored", upload=folder / "table.csv", limits=Limits(), profile=True)
ingest(request, seconds=60.0)
"""


def test_a_reader_ends_with_a_killed_parent(tmp_path: Path) -> None:
    """It reads a table that takes it a while; SIGKILL of its parent leaves it no way to be told."""
    table = tmp_path / "table.csv"
    with table.open("w") as file:
        file.write("a,b\n")
        for number in range(20):
            file.write(f"{number}.5,2.5\n" * 100_000)
    started = subprocess.Popen([sys.executable, "-c", STARTS, str(tmp_path)])
    try:
        wait_until(lambda: bool(children(started.pid)))
        (reader,) = children(started.pid)
        wait_until(lambda: (tmp_path / "stored").exists() or not alive(reader))  # it has begun
        assert alive(reader)
    finally:
        os.kill(started.pid, 9)
        started.wait()
    wait_until(lambda: not alive(reader), 5.0)


def test_a_reader_does_not_wait_for_what_it_does_not_need() -> None:
    """An upload without a specification starts a process that loads neither what trains nor what reads workbooks."""
    program = "import app.services.intake.ingest, sys; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True).stdout.split()
    assert not {"core.train", "scipy.optimize", "sqlalchemy", "openpyxl"} & set(loaded)
