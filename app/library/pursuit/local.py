"""A model in this process: a downloaded artefact predicts without a server, to the same bits."""

from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from app.errors import BrokenArtefactError
from app.services.evaluation import EvaluateOptions, evaluate
from app.services.explain.explainer import Explainer
from app.services.export.forms import export, parse_form
from app.services.predict.answer_files import kept_names
from app.services.predict.loaded_model import LoadedModel, load_model
from app.services.predict.npy import read_npy
from app.services.predict.options import Keep, OnError, PredictOptions, word_of
from app.services.predict.row_decoder import DecodedRows
from app.services.predict.row_notes import RowNotes
from app.services.predict.run import answer_arrays, named_arrays, shown_arrays
from app.services.predict.table_parts import PartOptions, matrix_part, read_part
from app.storage import artefact
from app.tables import Limits, read_table

from .blas import one_blas_thread
from .errors import ArgumentError, InvalidError, model_errors, read_file, warn
from .explanation import Explanation
from .files import form_of, write_whole
from .frames import JSON, NPY, Rows, json_rows, pieces, rows_of, table_file
from .options import Interval, Options

_AT_ONCE = 1
"""Rows explained at a time: work is limited for more than one of them."""


def load(file: str | PathLike[str] | bytes) -> "LocalModel":
    """Return the model of an artefact: the path of a .safetensors file, or its bytes.

    InvalidError where it is not a whole artefact of a release that this one reads; FileError, an OSError, for a file
    that cannot be read; ArgumentError, a TypeError, for anything else.
    """
    if not isinstance(file, str | PathLike | bytes):
        raise ArgumentError(f"load: expected the path of a file or its bytes, got {type(file).__name__}")
    return LocalModel(file if isinstance(file, bytes) else read_file(file))


class LocalModel:
    """A trained model. target: name of what it predicts, targets: of all where they are several; columns: names of
    what it predicts from, in order.

    report: what its training told; spec: what was asked of that; artefact: its bytes.
    """

    def __init__(self, data: bytes) -> None:
        try:
            stored = artefact.load(data)
            self.loaded: LoadedModel = load_model(data)
        except BrokenArtefactError as error:
            raise InvalidError(error.message) from None
        self.artefact = data
        self.target: str = self.loaded.schema.target
        self.targets: tuple[str, ...] = self.loaded.schema.targets
        self.columns: tuple[str, ...] = self.loaded.schema.names
        self.report: dict[str, Any] = stored.report
        self.spec: dict[str, Any] = stored.spec
        self.hyperparameters: dict[str, Any] = stored.hyperparameters
        self._explainers: dict[str, Explainer] = {}

    def __repr__(self) -> str:
        return f"LocalModel({self.target!r} from {', '.join(map(repr, self.columns))})"

    def predict(
        self,
        data: Any,
        *,
        interval: Interval = None,
        quantiles: Sequence[float] = (),
        include: Sequence[str] = (),
        on_error: str | None = None,
        keep: str | None = None,
    ) -> Any:
        """Predict rows; see `Client.predict`, whose answer this is to the bit."""
        options = Options.of(interval, quantiles, include, on_error, keep)
        wanted = _predict_options(options)
        if isinstance(data, str | PathLike):
            return self._predict_file(data, wanted, options.keep or Keep.OTHERS)
        rows = rows_of(data)
        kept = options.kept(rows.names, lambda: {*self.targets, *self.columns})
        parts = [self._piece(rows, start, stop, wanted) for start, stop in pieces(rows)]
        arrays = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        _warn_of(arrays, wanted)
        return rows.restore(named_arrays(self.loaded, shown_arrays(arrays, wanted, imputed=False)), kept)

    def _predict_file(self, path: str | PathLike[str], options: PredictOptions, keep: Keep) -> pa.Table:
        body = read_file(path)
        with model_errors(), one_blas_thread():
            part_options = PartOptions(on_error=options.on_error, keep=keep, typed=True)
            part = read_part(self.loaded, body, Limits(), part_options)
            arrays = part.decoded.spread(answer_arrays(self.loaded, part.decoded.inputs, options))
        _warn_of(arrays, options)
        shown = named_arrays(self.loaded, shown_arrays(arrays, options, imputed=self.loaded.integrated is not None))
        names = kept_names(part.kept, shown)
        columns: dict[str, Any] = {names[name]: column for name, column in part.kept.items()}
        return pa.table(columns | {name: pa.array(array, from_pandas=True) for name, array in shown.items()})

    def evaluate(
        self, data: Any, *, by: Sequence[str] = (), worst: int = 10, on_error: str = "refuse", target: str | None = None
    ) -> dict[str, Any]:
        """Score it on rows with the truth; see `Client.evaluate`."""
        _, file = table_file(data)
        with model_errors(), one_blas_thread():
            refused = word_of(OnError, on_error, "on_error")
            options = EvaluateOptions(by=tuple(by), worst=worst, on_error=refused, target=target)
            known = (*self.columns, *self.targets)
            return evaluate(self.loaded, read_table(file.getvalue(), known=known), options)

    def explain(self, data: Any, *, nearest: int = 5, target: str | None = None) -> Explanation:
        """Explain predictions; see `Client.explain`."""
        rows, bodies = rows_of(data), json_rows(data)
        parts = []
        with model_errors():
            explainer = self._explainer(self.loaded.of_target(target).schema.target)
        for start in range(0, max(1, len(bodies)), _AT_ONCE):
            some = bodies[start : start + _AT_ONCE]
            try:
                with model_errors(), one_blas_thread():
                    inputs = self.loaded.rows.decode_rows(b"[" + b", ".join(some) + b"]")
                    parts.append(explainer.explain(inputs, nearest))
            except InvalidError as error:
                raise error.from_row(start, len(some)) from None
        return Explanation.joined(parts, rows)

    def _explainer(self, target: str) -> Explainer:
        found = self._explainers.get(target)
        if found is None:
            stored = artefact.load(self.artefact).of_target(target)
            found = self._explainers[target] = Explainer.of(stored, self.loaded.of_target(target))
        return found

    def export(
        self,
        path: str | PathLike[str],
        *,
        form: str | None = None,
        interval: float | None = None,
        target: str | None = None,
    ) -> Path:
        """Write it in a form that predicts without this package; see `Model.export`."""
        with model_errors():
            chosen = parse_form(form_of(path, form))
            data = export(self.artefact, chosen, label=f"of {target or self.target}", level=interval, target=target)
        return write_whole(path, data)

    def _piece(self, rows: Rows, start: int, stop: int, options: PredictOptions) -> dict[str, NDArray[np.float64]]:
        try:
            with model_errors(), one_blas_thread():
                body = rows.body(start, stop)
                decoded = self._decoded(body, rows.media_type, PartOptions(on_error=options.on_error))
                return decoded.spread(answer_arrays(self.loaded, decoded.inputs, options))
        except InvalidError as error:
            raise error.from_row(start, stop - start) from None

    def _decoded(self, body: bytes, media_type: str, options: PartOptions) -> DecodedRows:
        if media_type == NPY:
            return matrix_part(self.loaded, read_npy(body), options)
        if media_type != JSON:
            return read_part(self.loaded, body, Limits(), options).decoded
        if options.on_error is OnError.NULL:
            return self.loaded.rows.decode_tolerantly(body, columns=False)
        return DecodedRows.of(self.loaded.rows.decode_rows(body))


def _warn_of(arrays: Mapping[str, NDArray[np.float64]], options: PredictOptions) -> None:
    notes = RowNotes()
    notes.add(arrays, tolerated=options.on_error is OnError.NULL)
    if sentence := notes.sentence():
        warn(sentence)


def _predict_options(options: Options) -> PredictOptions:
    with model_errors():
        return PredictOptions(
            levels=options.levels,
            quantiles=options.quantiles,
            include=frozenset(options.include),
            mean_only=options.mean_only,
            one_interval=options.levels is None or len(options.levels) == 1,
            on_error=options.on_error or OnError.REFUSE,
        )
