"""Many clients for a long time: does memory grow, does anything fail, how late is the slowest answer.

    python -m tests.benchmarks.soak [--minutes 30] [--clients 20]

`pursuit serve` on SQLite with one worker. Each client goes on asking for something at random: predictions of 1 to 1,000
rows as JSON or CSV, in and out; lists of models and jobs; a bad body, which has to be refused; now and then a training,
whose model it then asks, and deletes when it has three. Memory is told by process, resident bytes (Linux only), at
every tenth of the time, beside the models that the API holds. Its start is the first tenth by which the API has loaded
as many models as it holds at the end: until then the cache fills, as PURSUIT_CACHE_MODELS and _BYTES let it.
"""

import argparse
import math
import random
import re
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import httpx
import numpy as np

from app.cli.service import Service, start
from tests.benchmarks.sets import conditions

TRAINING_SHARE, BAD_SHARE, LIST_SHARE = 0.004, 0.03, 0.05
PAUSE = 0.05
"""Seconds that a client waits between two questions, on average."""
MOST_MODELS = 3
JSON_BODY = {"content-type": "application/json"}
PARTS = 10
"""Times that memory is told."""
LOADED = re.compile(r"^pursuit_models_loaded(_bytes)? ([0-9.e+]+)$", re.MULTILINE)


@dataclass(slots=True)
class Seen:
    """Answers as all clients saw them. failures: status or error by question; seconds: of each answer by question."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    failures: Counter[str] = field(default_factory=Counter)
    seconds: dict[str, list[float]] = field(default_factory=dict)

    def ask(self, name: str, send: Callable[[], httpx.Response], *expected: int) -> httpx.Response | None:
        """Send a question, and keep how it went."""
        began = time.perf_counter()
        try:
            answer = send()
        except httpx.HTTPError as error:
            with self.lock:
                self.failures[f"{name}: {type(error).__name__}"] += 1
            return None
        took = time.perf_counter() - began
        with self.lock:
            self.seconds.setdefault(name, []).append(took)
            if answer.status_code not in expected:
                self.failures[f"{name}: {answer.status_code}"] += 1
        return answer


@dataclass(frozen=True, slots=True)
class Sample:
    """Resident bytes by process, the models in the API's memory and their bytes as it counts them."""

    processes: dict[str, int]
    models: int
    bytes: int


def main() -> None:
    """Print what was seen."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--clients", type=int, default=20)
    asked = parser.parse_args()
    print(f"{conditions()}\n\n{asked.clients} clients, {asked.minutes:g} minutes.\n")
    with tempfile.TemporaryDirectory() as folder:
        service = start(Path(folder, "data"), Path(folder, "log"))
        try:
            until = time.monotonic() + 60.0 * asked.minutes
            seen, stop = Seen(), threading.Event()
            threads = [
                threading.Thread(target=client, args=(service.url, number, until, seen, stop))
                for number in range(asked.clients)
            ]
            for thread in threads:
                thread.start()
            samples = []
            for part in range(PARTS):
                time.sleep(max(0.0, until - 60.0 * asked.minutes * (1.0 - (part + 1) / PARTS) - time.monotonic()))
                samples.append(sample(service))
            for thread in threads:
                thread.join()
            samples.append(sample(service))
        finally:
            service.stop()
    told(seen, samples)


def client(url: str, number: int, until: float, seen: Seen, stop: threading.Event) -> None:
    """Ask until the time is over."""
    chance, models = random.Random(number), list[str]()
    with httpx.Client(base_url=url, timeout=120.0) as http:
        name, trained = f"soak-{number}", 0
        while time.monotonic() < until and not stop.is_set():
            what = chance.random()
            if not models or what < TRAINING_SHARE:
                trained += 1
                if train(http, f"{name}-{trained}", chance, seen, until):
                    models.append(f"{name}-{trained}")
                if len(models) > MOST_MODELS:
                    seen.ask("delete", partial(http.delete, f"/models/{models.pop(0)}"), 204)
            elif what < TRAINING_SHARE + BAD_SHARE:
                seen.ask("bad body", lambda: http.post("/predict", content=b'{"rows": [[1, 2', headers=JSON_BODY), 400)
            elif what < TRAINING_SHARE + BAD_SHARE + LIST_SHARE:
                seen.ask("lists", lambda: http.get(chance.choice(("/models", "/jobs?state=succeeded"))), 200)
            else:
                predict(http, chance.choice(models), chance, seen)
            time.sleep(chance.expovariate(1.0 / PAUSE))


def table(chance: random.Random, rows: int) -> str:
    """Columns a, b, c and y."""
    lines = ["a,b,c,y"]
    for _ in range(rows):
        a, b, c = (chance.uniform(-1.0, 1.0) for _ in range(3))
        lines.append(f"{a!r},{b!r},{c!r},{math.sin(3.0 * a) + b * c + chance.gauss(0.0, 0.1)!r}")
    return "\n".join(lines) + "\n"


def train(http: httpx.Client, name: str, chance: random.Random, seen: Seen, until: float) -> bool:
    """Train a model and wait for it; whether it is there."""
    spec = {"model": name, "target": "y", "effort": chance.choice(("quick", "normal"))}
    content = table(chance, chance.choice((60, 200, 500)))
    answer = seen.ask(
        "train",
        lambda: http.post("/train", files={"file": ("t.csv", content)}, data={"spec": str(spec).replace("'", '"')}),
        202,
    )
    if answer is None or answer.status_code != 202:
        return False
    job = answer.json()["id"]
    while time.monotonic() < until + 60.0:
        found = seen.ask("job", lambda: http.get(f"/jobs/{job}"), 200)
        state = "" if found is None else found.json()["state"]
        if state == "succeeded":
            return True
        if state in ("failed", "cancelled"):
            with seen.lock:
                seen.failures[f"training: {state}"] += 1
            return False
        time.sleep(0.5)
    return False


def predict(http: httpx.Client, model: str, chance: random.Random, seen: Seen) -> None:
    """Ask for some rows, in some form."""
    count = chance.choice((1, 1, 1, 10, 100, 1000))
    rows = [[chance.uniform(-1.0, 1.0) for _ in range(3)] for _ in range(count)]
    kind = f"predict {count:,}"
    if chance.random() < 0.8:
        more = chance.choice(({}, {"interval": 0.9}, {"quantiles": [0.1, 0.5]}, {"include": ["support"]}))
        seen.ask(kind, lambda: http.post("/predict", json={"model": model, "rows": rows, **more}), 200)
    else:
        text = "a,b,c\n" + "".join(",".join(map(repr, row)) + "\n" for row in rows)
        headers = {"content-type": "text/csv", "accept": chance.choice(("text/csv", "application/json"))}
        seen.ask(kind, lambda: http.post(f"/predict?model={model}", content=text, headers=headers), 200)


def sample(service: Service) -> Sample:
    """Memory of all processes, and of the models that the API holds."""
    text = httpx.get(f"{service.url}/metrics", timeout=60.0).text
    models = {name: float(number) for name, number in LOADED.findall(text)}
    return Sample(memory(service.process.pid), int(models.get("", 0)), int(models.get("_bytes", 0)))


def memory(parent: int) -> dict[str, int]:
    """Resident bytes of a process and of those it started, by name."""
    found: dict[str, int] = {}
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError):
            continue
    family = {parent}
    while more := {pid for pid, above in parents.items() if above in family} - family:
        family |= more
    for pid in sorted(family):
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        except OSError:
            continue
        name = " ".join(word.decode(errors="replace") for word in words[-8:] if word and not word.startswith(b"/"))
        if "child" not in name:  # a job's own process comes and goes
            found[f"{pid} {name}"[:60]] = pages * 4096
    return found


def told(seen: Seen, samples: list[Sample]) -> None:
    """Print tables of answers and of memory."""
    print("| question | answers | p50, ms | p99, ms | longest, ms |")
    print("|---|---|---|---|---|")
    for name, seconds in sorted(seen.seconds.items()):
        p50, p99, most = 1e3 * np.quantile(seconds, (0.5, 0.99, 1.0))
        print(f"| {name} | {len(seconds):,} | {p50:.1f} | {p99:.1f} | {most:.0f} |")
    start = next(place for place, one in enumerate(samples) if one.models >= samples[-1].models)
    names = [name for name in samples[-1].processes if name in samples[start].processes]
    print(f"\n| part | models | their MB | {' | '.join(f'{name}, MB' for name in names)} |")
    print("|---" * (3 + len(names)) + "|")
    for place, one in enumerate(samples):
        sizes = " | ".join(f"{one.processes.get(name, 0) / 2**20:.0f}" for name in names)
        print(
            f"| {place + 1}{' (start)' if place == start else ''} | {one.models} | {one.bytes / 2**20:.0f} | {sizes} |"
        )
    for name in names:
        grown = samples[-1].processes[name] - samples[start].processes[name]
        print(f"\n{name}: {grown / 2**20:+.0f} MB since its start.")
    print(f"\nNot as expected: {dict(seen.failures) or 'nothing'}.")


if __name__ == "__main__":
    main()
