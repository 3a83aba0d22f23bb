"""Progress of a job: a bar on a terminal and in a notebook, a line at each new phase or round elsewhere."""

from importlib.util import find_spec
from typing import Any, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskProgressColumn, TextColumn
from rich.table import Column
from rich.text import Text

from app.cli.client import Client, Json
from app.cli.display import fraction, job_error

_BAR_MIN_CONSOLE_WIDTH = 80  # characters that all columns take


class _Clock(ProgressColumn):
    """Seconds so far, and the server's estimate of the seconds left."""

    def render(self, task: Task) -> Text:
        left = task.fields.get("eta")
        text = f"{task.elapsed or 0.0:.0f} s"
        return Text(text if left is None else f"{text}, {left:.0f} s left", style="dim")


def watch(client: Client, job_id: str, console: Console) -> Json:
    """Show the job's progress until it has ended; return the job."""
    if not has_bar(console):
        return _lines(client, job_id, console)
    job: Json = {}
    with JobBar(console) as bar:
        for job in client.follow(job_id):
            bar.show(job)
    return job


def wait_for_end(client: Client, job: Json, console: Console, *, local: bool) -> Json:
    """Show a job's progress until it has succeeded; return it. ClientError where it does not. local: the server is this
    command's own, so that the job ends with it."""
    try:
        job = watch(client, job["id"], console)
    except KeyboardInterrupt:
        if not local:
            console.print(f"the server goes on: `pursuit jobs {job['id']}`", highlight=False, soft_wrap=True)
        raise
    if job["state"] != "succeeded":
        raise job_error(job)
    return job


class JobBar:
    """Bar that shows each job that it is given, for the length of a `with` statement."""

    def __init__(self, console: Console, *, visible: bool = True) -> None:
        columns = (
            TextColumn("{task.description}", table_column=Column(no_wrap=True)),
            *([BarColumn(bar_width=16)] if console.width >= _BAR_MIN_CONSOLE_WIDTH else []),
            TaskProgressColumn(),
            TextColumn("[dim]{task.fields[detail]}", table_column=Column(no_wrap=True, overflow="ellipsis", ratio=1)),
            _Clock(table_column=Column(no_wrap=True)),
        )
        self._bar = Progress(*columns, console=console, disable=not visible)
        self._task = self._bar.add_task("waiting", total=1.0, detail="", eta=None)
        self._reason: str | None = None

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def show(self, job: Json) -> None:
        """Show the job in its current state."""
        progress = job.get("progress") or {}
        if _waiting(job) not in {None, self._reason}:
            self._reason = _waiting(job)
            if not self._bar.disable:
                where = "back in the queue" if job["state"] == "queued" else "waiting"
                self._bar.console.print(f"{where}: {self._reason}", highlight=False, markup=False)
        self._bar.update(
            self._task,
            completed=fraction(job),
            description=f"{_headline(job):<11}",
            detail=_place(progress),
            eta=progress.get("eta_s") if job["state"] == "running" else None,
        )


def has_bar(console: Console) -> bool:
    """Return whether progress is shown as a bar here. In a notebook that takes widgets."""
    return console.is_terminal or (console.is_jupyter and find_spec("ipywidgets") is not None)


def _lines(client: Client, job_id: str, console: Console) -> Json:
    job: Json = {}
    shown = ""
    for job in client.follow(job_id):
        progress = job.get("progress") or {}
        where = f"{_headline(job)} {progress.get('round') or ''} {_waiting(job) or ''}"
        if where != shown:
            shown = where
            detail = _waiting(job) or _detail(progress)
            console.print(
                f"{100 * fraction(job):3.0f}%  {_headline(job):<11}  {detail}".rstrip(),
                markup=False,
                highlight=False,
                soft_wrap=True,
            )
    return job


def _waiting(job: Json) -> str | None:
    """Return why a job is in the queue again, or does not go on."""
    reason: str | None = job.get("requeue_reason", job.get("put_back"))  # as servers before this release call it
    return reason or (job.get("progress") or {}).get("waiting")


def _headline(job: Json) -> str:
    if job["state"] == "queued":
        position = job.get("position")
        return f"{position} in front" if position else "queued"
    if job["state"] != "running":
        return str(job["state"])
    return str((job.get("progress") or {}).get("phase") or "starting")


def _place(progress: dict[str, Any]) -> str:
    parts = []
    if progress.get("round") and progress.get("rounds"):
        parts.append(f"round {progress['round']}/{progress['rounds']}")
    if progress.get("basis_size"):
        parts.append(f"{progress['basis_size']} basis vectors")
    return ", ".join(parts)


def _detail(progress: dict[str, Any]) -> str:
    objective = progress.get("objective")
    parts = [_place(progress), "" if objective is None else f"objective {objective:.6g}"]
    return ", ".join(filter(None, parts))
