"""Progress: a bar on a terminal, lines elsewhere."""

import io
import itertools
from importlib.util import find_spec

from rich.console import Console

from app.cli.client import Client
from app.cli.progress import has_bar, watch
from tests.app.cli.stub import Answer, events, job, stub

SELECTING = {"fraction": 0.25, "phase": "selecting", "round": 1, "rounds": 5, "basis_size": 40, "objective": None}
ADAPTING = {**SELECTING, "fraction": 0.5, "phase": "adapting", "objective": 812.4, "elapsed_s": 1.0, "eta_s": 4.6}
ANSWERS = {
    ("GET", "/jobs/job_1"): [Answer(body=job("queued", position=2))],
    ("GET", "/jobs/job_1/events"): [
        events(job("running", progress=SELECTING), job("running", progress=ADAPTING), job("succeeded"))
    ],
}


def test_lines_where_there_is_no_terminal() -> None:
    out = io.StringIO()
    with stub(ANSWERS) as server, Client(server.url) as client:
        assert watch(client, "job_1", Console(file=out, width=100))["state"] == "succeeded"
    lines = out.getvalue().splitlines()
    assert lines[0].split() == ["0%", "2", "in", "front"]
    assert lines[1] == " 25%  selecting    round 1/5, 40 basis vectors"
    assert lines[2] == " 50%  adapting     round 1/5, 40 basis vectors, objective 812.4"
    assert lines[3].split() == ["100%", "succeeded"]


def test_a_bar_on_a_terminal() -> None:
    out = io.StringIO()
    with stub(ANSWERS) as server, Client(server.url) as client:
        console = Console(file=out, width=120, force_terminal=True, color_system=None)
        assert watch(client, "job_1", console)["state"] == "succeeded"
    assert "━" in out.getvalue()
    assert "100%" in out.getvalue()
    assert "succeeded" in out.getvalue()


def test_a_bar_in_a_notebook_that_has_widgets() -> None:
    notebook = Console(file=io.StringIO(), force_jupyter=True)
    assert has_bar(notebook) is (find_spec("ipywidgets") is not None)
    assert has_bar(Console(file=io.StringIO())) is False


def test_what_a_running_job_waits_for() -> None:
    reason = "the folder of the shards [/shards] cannot be written: No space left on device"
    stuck = job("running", progress={**SELECTING, "waiting": reason})
    answers = {
        ("GET", "/jobs/job_1"): [Answer(body=job("running", progress=SELECTING))],
        ("GET", "/jobs/job_1/events"): [events(stuck, stuck, job("succeeded"))],
    }
    for terminal in (False, True):
        out = io.StringIO()
        with stub(answers) as server, Client(server.url) as client:
            watch(client, "job_1", Console(file=out, width=120, force_terminal=terminal, color_system=None))
        assert out.getvalue().count(reason) == 1
        assert "back in the queue" not in out.getvalue()


def test_why_a_job_is_in_the_queue_again() -> None:
    reason = "the cluster at tcp://10.0.0.1:8786 [TLS] does not answer; the job waits for it"
    for terminal, field in itertools.product((False, True), ("requeue_reason", "put_back")):  # of older servers
        answers = {
            ("GET", "/jobs/job_1"): [Answer(body=job("running", progress=SELECTING))],
            ("GET", "/jobs/job_1/events"): [events(job("queued", position=0, **{field: reason}), job("succeeded"))],
        }
        out = io.StringIO()
        with stub(answers) as server, Client(server.url) as client:
            watch(client, "job_1", Console(file=out, width=120, force_terminal=terminal, color_system=None))
        assert out.getvalue().count(reason) == 1
