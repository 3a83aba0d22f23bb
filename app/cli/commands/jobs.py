"""`pursuit jobs`: list, follow, cancel."""

from typing import Annotated

import typer

from app.cli import display
from app.cli.connection import connect
from app.cli.options import DEFAULT_URL, AsJson, DataDir, Key, Local, Url, Verbose, choice
from app.cli.output import console, print_json
from app.cli.progress import watch
from app.cli.spec_values import JOB_STATES


def jobs(
    *,
    job_id: Annotated[str | None, typer.Argument(help="One job, followed until it has ended.")] = None,
    state: Annotated[str | None, choice(JOB_STATES, "Only jobs in this state.")] = None,
    model: Annotated[str | None, typer.Option(metavar="NAME", help="Only jobs for this model.")] = None,
    cancel: Annotated[bool, typer.Option("--cancel", help="End the job.")] = False,
    verbose: Verbose = False,
    as_json: AsJson = False,
    local: Local = False,
    url: Url = DEFAULT_URL,
    key: Key = None,
    data_dir: DataDir = None,
) -> None:
    """List the jobs, follow one, or cancel one."""
    if cancel and job_id is None:
        raise typer.BadParameter("--cancel needs the id of a job", param_hint="--cancel")
    screen = console()
    with connect(url, key, local=local, data_dir=data_dir) as client:
        if job_id is None:
            answer = client.jobs(state=state, model=model)
            if not as_json:
                display.jobs(screen, answer)
        elif cancel:
            answer = client.cancel(job_id)
            if not as_json:
                answer = client.wait_for_job(answer)
                display.cancelled(screen, answer)
        else:
            answer = client.job(job_id) if as_json or local else watch(client, job_id, screen)
            if not as_json and answer["state"] in {"failed", "cancelled"}:
                raise display.job_error(answer)
            if not as_json and answer["state"] == "succeeded":
                display.report(screen, answer, verbose=verbose)
    if as_json:
        print_json(answer)
