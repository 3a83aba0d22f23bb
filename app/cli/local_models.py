"""A model in this process, from an artefact file: for commands that need no server then."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from app.cli.client import ClientError, ProblemError

if TYPE_CHECKING:
    from app.errors import PursuitError
    from app.storage.artefact import ModelArtefact


def evaluate(
    artefact: bytes, table: bytes, *, by: Sequence[str], worst: int, on_error: str | None, target: str | None = None
) -> dict[str, Any]:
    """Evaluate a model on a table file; see `app.services.evaluation`. ClientError."""
    from app.errors import PursuitError
    from app.services.evaluation import EvaluateOptions
    from app.services.evaluation import evaluate as evaluate_model
    from app.services.predict.loaded_model import prepare_model
    from app.services.predict.options import OnError
    from app.tables import read_table

    with _whole_artefact():
        model = prepare_model(_load(artefact))
    schema = model.schema
    try:
        refuse = OnError(on_error or OnError.REFUSE)
        options = EvaluateOptions(by=tuple(by), worst=worst, on_error=refuse, target=target)
        rows = read_table(
            table, known=(*schema.names, *schema.targets), sheet=schema.read_options.sheet, sheet_wanted=False
        )
        return evaluate_model(model, rows, options)
    except PursuitError as error:
        raise refused(error) from None


def report(artefact: bytes, name: str, target: str | None = None) -> bytes:
    """Return the report of a model as an HTML page. target: of several, by default the first. ClientError."""
    from app.errors import NotFoundError
    from app.services.model_report import report_page

    with _whole_artefact():
        try:
            stored = _load(artefact).of_target(target)
        except NotFoundError as error:
            raise ClientError(error.message) from None
        return report_page(stored, {"model": name, "version": None}).encode()


def _load(artefact: bytes) -> "ModelArtefact":
    from app.storage import artefact as artefacts

    return artefacts.load(artefact)


@contextmanager
def _whole_artefact() -> Iterator[None]:
    from app.errors import BrokenArtefactError
    from core.errors import CoreError

    try:
        yield
    except (BrokenArtefactError, CoreError) as error:
        raise ClientError(f"the file is no artefact that can be read: {error}") from None


def refused(error: "PursuitError") -> ProblemError:
    """Return a refusal as a server would have sent it."""
    from dataclasses import asdict

    from app.errors import InvalidRequestError

    faults = error.faults if isinstance(error, InvalidRequestError) else ()
    total = error.total if isinstance(error, InvalidRequestError) else 0
    return ProblemError(422, {"detail": error.message, "errors": [asdict(one) for one in faults], "error_count": total})
