"""Trainings on a server."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

from rich.console import Console

from app.cli.progress import has_bar, watch

from .errors import JobError, server_errors

if TYPE_CHECKING:
    from .client import Client, Model


class Job:
    """A training on the server."""

    def __init__(self, client: "Client", document: Mapping[str, Any]) -> None:
        self.client = client
        self.document = dict(document)

    def __repr__(self) -> str:
        return f"Job({self.id!r}, {self.document['model']!r}, {self.state}, {100 * self.progress['fraction']:.0f}%)"

    @property
    def id(self) -> str:
        """Id of the job."""
        return str(self.document["id"])

    @property
    def state(self) -> str:
        """`queued`, `running`, `succeeded`, `failed` or `cancelled`, when the job was last asked for."""
        return str(self.document["state"])

    @property
    def progress(self) -> dict[str, Any]:
        """Progress when the job was last asked for: `fraction`, `phase`, `round`, `objective`, `eta_s` and others."""
        return {"fraction": 0.0, **(self.document.get("progress") or {})}

    @property
    def report(self) -> dict[str, Any] | None:
        """Report of the training; None before it has succeeded."""
        result = self.document.get("result")
        return None if result is None else dict(result["report"])

    def refresh(self) -> Self:
        """Ask the server for the current state."""
        with server_errors():
            self.document = self.client.http.job(self.id)
        return self

    def wait(self, *, progress: bool | None = None) -> "Model":
        """Wait for the end; return the model.

        progress: show it, as a bar in terminals and notebooks, in lines elsewhere; None: as a bar or not at all. Ctrl-C
        ends the waiting and not the job. JobError where the training fails or is cancelled.
        """
        console = Console()
        with server_errors():
            if has_bar(console) if progress is None else progress:
                self.document = watch(self.client.http, self.id, console)
            else:
                for document in self.client.http.follow(self.id):
                    self.document = document
        return self.model()

    def model(self) -> "Model":
        """Return the model of a job that has ended; JobError where it has none."""
        result = self.document.get("result")
        if self.state != "succeeded" or result is None:
            raise JobError(self.document)
        return self.client.model_at(f"{result['model']}@{result['version']}")

    def cancel(self) -> Self:
        """Request that it be cancelled; a running one stops within a second or two."""
        with server_errors():
            self.document = self.client.http.cancel(self.id)
        return self
