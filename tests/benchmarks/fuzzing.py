"""Fuzzing of every parser: whatever bytes come, it returns or refuses with an error of ours, in time and memory.

    python -m tests.benchmarks.fuzzing FOLDER [--minutes 60] [--targets csv,npy]

Mutants of valid inputs, and of mutants that met a refusal nobody had met before, are run in processes of their own, for
`--minutes` of processor time in all. An error that is not one of ours or would be a 5xx, the end of the process, more
than SECONDS of processor time or MEMORY bytes is a finding: its input and traceback are left in FOLDER/findings.
"""

import argparse
import hashlib
import json
import os
import random
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

from app.errors import PursuitError
from app.routes.http.errors import status_of
from core.errors import CoreError
from tests.benchmarks.fuzz_mutations import MOST_BYTES, Mutator, mutations
from tests.benchmarks.fuzz_targets import Target, artefacts, targets

SECONDS = 10.0
"""Processor time of one input of at most 64 KiB."""
MEMORY = 1 << 30
"""Bytes that one input may take beyond what the process had."""
TURN = 60.0
"""Processor seconds of a process before the next target has its turn."""
KEPT = 400
"""Inputs of a target that are mutated further."""
NAMES = (
    "csv",
    "jsonl",
    "xlsx",
    "parquet",
    "arrow",
    "predict-file",
    "npy",
    "import",
    "load",
    "spec",
    "train-json",
    "predict-json",
    "tensors",
)
_VARYING = re.compile(r"'[^']*'|\"[^\"]*\"|\d+|0x[0-9a-f]+")


class ServerFaultError(Exception):
    """An error of ours that would be answered as 5xx."""


def check(target: Target, data: bytes) -> str:
    """Run one input; what it was refused with, or "". Raises what no input may lead to."""
    try:
        target.run(data)
    except (PursuitError, CoreError) as error:
        status, _ = status_of(error)
        if status >= 500 and type(error).__name__ != "BrokenArtefactError":
            raise ServerFaultError(f"{type(error).__name__}: {error}") from error
        return f"{type(error).__name__} {_VARYING.sub('', str(error))[:120]}"
    return ""


def run_turn(folder: Path, name: str, seed: int, seconds: float) -> None:
    """Fuzz one target for so many processor seconds; print what was seen as JSON."""
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as scratch:
        target = targets(Path(scratch), [path.read_bytes() for path in sorted((folder / "artefacts").iterdir())])[name]
        chance = random.Random(seed)
        corpus = [*target.seeds(), *(path.read_bytes() for path in sorted((folder / "corpus" / name).glob("*")))]
        for data in corpus[: len(target.seeds())]:
            if said := check(target, data):
                print(f"a seed of {name} is refused: {said}", file=sys.stderr)
        mutate = mutations(Mutator(chance, corpus))[target.mutation]
        _limit()
        seen: Counter[str] = Counter()
        known = {check(target, data) for data in corpus}
        runs = accepted = 0
        current = folder / "current"
        began = time.process_time()
        while time.process_time() - began < seconds:
            data = mutate(chance.choice(corpus))
            if chance.random() < 0.3:
                data = mutate(data)
            current.write_bytes(data)
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            signal.setitimer(signal.ITIMER_PROF, SECONDS)
            runs += 1
            try:
                said = check(target, data)
            except Exception as error:  # noqa: BLE001  that is what is looked for
                keep(folder, name, data, "".join(traceback.format_exception(error)))
                seen[f"{type(error).__name__}"] += 1
                continue
            finally:
                signal.setitimer(signal.ITIMER_PROF, 0.0)
            if resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak > MEMORY >> 12:
                keep(folder, name, data, f"memory: {peak} KiB before")
            accepted += not said
            if said not in known and len(data) < MOST_BYTES:
                known.add(said)
                if len(corpus) < KEPT:
                    corpus.append(data)
                    path = folder / "corpus" / name / hashlib.sha256(data).hexdigest()[:16]
                    path.write_bytes(data)
    print(json.dumps({"runs": runs, "accepted": accepted, "refusals": len(known), "errors": seen}))


def keep(folder: Path, name: str, data: bytes, said: str) -> None:
    """Keep an input that led to what it should not, and what that was; the smallest of each kind."""
    lines = [line for line in said.splitlines() if line.startswith("  File ") and "fuzz" not in line]
    kind = hashlib.sha256(
        (lines[-1] if lines else said[:60]).encode() + said.splitlines()[-1][:40].encode()
    ).hexdigest()[:12]
    path = folder / "findings" / f"{name}-{kind}"
    if not path.exists() or path.stat().st_size > len(data):
        path.write_bytes(data)
        path.with_suffix(".txt").write_text(said)


def _limit() -> None:
    """End this process at more memory than an input may take; SIGPROF ends it after too long."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + 2 * MEMORY, hard))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGPROF, signal.SIG_DFL)


def main() -> None:
    """Fuzz all targets in turn."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--minutes", type=float, default=60.0, help="processor time in all")
    parser.add_argument("--targets", default=",".join(NAMES))
    parser.add_argument("--turn", help=argparse.SUPPRESS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=TURN, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    folder: Path = asked.folder
    if asked.turn:
        run_turn(folder, asked.turn, asked.seed, asked.seconds)
        return
    names = asked.targets.split(",")
    for part in ("artefacts", "findings", *(f"corpus/{name}" for name in names)):
        (folder / part).mkdir(parents=True, exist_ok=True)
    if not any((folder / "artefacts").iterdir()):
        for place, data in enumerate(artefacts()):
            (folder / "artefacts" / f"{place}.safetensors").write_bytes(data)
    os.nice(19 - os.nice(0))
    totals: dict[str, Counter[str]] = {name: Counter() for name in names}
    seed = asked.seed
    while (spent := sum(total["seconds"] for total in totals.values())) < 60.0 * asked.minutes:
        name = names[seed % len(names)]
        totals[name].update(_turn(folder, name, seed, min(TURN, 60.0 * asked.minutes - spent)))
        (folder / "totals.json").write_text(json.dumps(totals, indent=1))
        seed += 1
    print(table(totals, len(list((folder / "findings").glob("*.txt")))))


def _turn(folder: Path, name: str, seed: int, seconds: float) -> Counter[str]:
    command = [sys.executable, "-m", "tests.benchmarks.fuzzing", str(folder), "--turn", name, "--seed", str(seed)]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([*command, "--seconds", str(seconds)], capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    took = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    if done.returncode:
        what = f"the process ended with {done.returncode}\n{done.stderr[-3000:]}"
        keep(folder, name, (folder / "current").read_bytes(), what)
        return Counter({"seconds": took, "ended": 1})
    if done.stderr:
        print(done.stderr, file=sys.stderr)
    seen: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return Counter({"seconds": took, "runs": seen["runs"], "accepted": seen["accepted"]})


def table(totals: dict[str, Counter[str]], findings: int) -> str:
    """The summary, as a table of Markdown."""
    lines = ["| parser | processor s | inputs | of them accepted |", "|---|---|---|---|"]
    for name, total in totals.items():
        lines.append(f"| {name} | {total['seconds']:.0f} | {total['runs']:,} | {total['accepted']:,} |")
    runs = sum(total["runs"] for total in totals.values())
    seconds = sum(total["seconds"] for total in totals.values())
    return "\n".join([*lines, f"| all | {seconds:.0f} | {runs:,} | |", "", f"Findings: {findings}"])


if __name__ == "__main__":
    main()
