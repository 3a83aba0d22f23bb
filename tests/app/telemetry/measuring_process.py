"""A process that measures: FOLDER COUNTS. It counts, writes, says so, and waits until its input ends."""

import sys
from pathlib import Path

from app.telemetry.measures import Measures
from app.telemetry.snapshots import SnapshotFolder

if __name__ == "__main__":
    place, number = sys.argv[1:]
    measures = Measures()
    folder = SnapshotFolder(Path(place), measures)
    folder.open()
    measures.job_tries.add(("succeeded",), float(number))
    measures.models_loaded.set(float(number))
    measures.request("GET", "/jobs", 200, 0.02)
    folder.total()
    print("written", flush=True)
    sys.stdin.read()
    folder.close()
