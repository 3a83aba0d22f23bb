"""The Gaussian process as a scikit-learn estimator: the service's training, in this process."""

from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, Literal, Self, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from app.services.core_spec import core_spec
from app.services.predict.array_names import of_target
from app.services.predict.options import PredictOptions
from app.services.predict.run import answer_arrays
from app.services.spec_reading import read_spec
from app.services.train.assemble import build_artefact, build_report, dataset_of, profile_of, without_copies
from app.services.train.several import Told, train_matrices
from app.settings import available_cores
from app.storage import artefact
from app.tables import DesignMatrix, Feature, Kind, Schema
from core.train.run import train

from .blas import one_blas_thread
from .errors import InvalidError, model_errors
from .explanation import Explanation
from .files import write_whole
from .local import LocalModel

try:
    from sklearn.base import BaseEstimator, RegressorMixin
    from sklearn.utils import check_random_state
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError as error:
    raise ImportError("the estimator needs scikit-learn 1.6 or later: pip install 'scikit-learn>=1.6,<2'") from error

_LARGEST_BASIS = 4_000
_PIECE_ROWS = 100_000


class SparseGPRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Gaussian process regression with calibrated error bars, sparse where there are many rows.

    Parameters are the fields of the service's specification; None is the service's choice. By default (`effort`
    normal) a sparse model is compared on left-out rows with a full Gaussian process, of up to 20,000 rows, and the
    better one is kept; where a part of a sparse model is chosen by hand, such as `method` or `basis_size`, that model
    is what is fitted (`effort` quick).

    Inputs are numbers without missing values: put an encoder and an imputer before it, as a ColumnTransformer.

    `fit` takes weights, which say how precise each row is: noise variances are one over them, up to a factor that is
    learnt. They are not called `sample_weight`, which in scikit-learn counts repetitions: a row that comes twice is a
    copy here and counts once, and weights that are all equal change nothing. With metadata routing,
    `set_fit_request(weights=True)`.

    Args:
        effort: `quick`, `normal` or `best`: how many models are compared.
        kernel: `auto`, `gaussian`, `matern52`, `matern32` or `matern12`.
        basis_size, max_basis_size: basis vectors, "auto" for as many as improve, at most so many.
        method, gain: how they are chosen.
        approximation, power: `pep` with its power, `fitc`, `vfe`, `dtc` or `sor`.
        mean_rows: rows that the mean rests on: `auto`, `all`, `basis` or a number.
        variance: `auto`, `basis` or `near`: where error bars come from.
        noise: `auto`, `constant` or `input-dependent`.
        calibrate: `auto`, `loo`, `cross-fit`, or False for the error bars as the Gaussian process gives them.
        intervals: `symmetric` or `asymmetric`.
        target_transform: `none`, `log`, `log1p`, `yeo-johnson`, `rank-normal` or `auto`: what the target is learnt as.
        input_transform: `none`, `yeo-johnson` or `auto`: what columns with long tails are learnt as.
        adapt: budget of the hyperparameters' adaptation, {"rounds": 5, "steps": 20}, or False.
        refine: budget for moving basis vectors, {"steps": 60}, or False.
        standardize: learn on zero mean and unit variance.
        holdout: share of rows that the report's scores are measured on; the model is fitted on all rows.
        duplicates: `drop` or `keep` exact copies of rows.
        random_state: a number, a RandomState, or None for another result each time.
        n_jobs: threads of a fit with many rows: None for one, -1 for as many as there are cores.

    Attributes:
        artefact_: the model as safetensors, what `save` writes, `load` reads and `Client.push` publishes.
        report_: scores on held-out rows, hyperparameters, warnings and others.
        n_features_in_, feature_names_in_: as in every estimator.
    """

    def __init__(
        self,
        *,
        effort: str | None = None,
        kernel: str | None = None,
        basis_size: int | str = "auto",
        max_basis_size: int = 500,
        method: str = "batch",
        gain: str = "sb",
        approximation: str = "pep",
        power: float = 0.7,
        mean_rows: int | str | None = None,
        variance: str = "auto",
        noise: str = "auto",
        calibrate: str | bool = "auto",
        intervals: str = "symmetric",
        target_transform: str | None = None,
        input_transform: str | None = None,
        adapt: Mapping[str, int] | bool = True,
        refine: Mapping[str, int] | bool = False,
        standardize: bool = True,
        holdout: float = 0.1,
        duplicates: str = "drop",
        random_state: int | np.random.RandomState | None = 0,
        n_jobs: int | None = None,
    ) -> None:
        self.effort = effort
        self.kernel = kernel
        self.basis_size = basis_size
        self.max_basis_size = max_basis_size
        self.method = method
        self.gain = gain
        self.approximation = approximation
        self.power = power
        self.mean_rows = mean_rows
        self.variance = variance
        self.noise = noise
        self.calibrate = calibrate
        self.intervals = intervals
        self.target_transform = target_transform
        self.input_transform = input_transform
        self.adapt = adapt
        self.refine = refine
        self.standardize = standardize
        self.holdout = holdout
        self.duplicates = duplicates
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: ArrayLike, y: ArrayLike, weights: ArrayLike | None = None) -> Self:
        """Train on inputs (n, p) and targets (n,), or (n, t) of several. InvalidError, a ValueError, for what cannot be
        learned from.

        weights (n,): how much each row counts, at least 0, by default all the same; of a single target. A row of weight
        4 is as precise as the mean of 4 rows of weight 1; only ratios matter, a row of weight 0 is left out, and error
        bars are those of a row of mean weight.
        """
        named, columns = getattr(y, "name", None), getattr(y, "columns", None)
        inputs, targets = validate_data(
            self, X, y, dtype=np.float64, order="C", y_numeric=True, multi_output=True, ensure_min_samples=2
        )
        targets = np.asarray(targets, dtype=np.float64)
        with model_errors(), one_blas_thread():
            counts = None if weights is None else _counts(weights, targets)
            if targets.ndim == 2:
                names = [f"y{place}" for place in range(targets.shape[1])] if columns is None else map(str, columns)
                self.artefact_, self.report_ = self._train_several(inputs, targets, list(names))
            else:
                target = named if isinstance(named, str) else "y"
                self.artefact_, self.report_ = self._train(inputs, targets, target, counts)
        self._model = LocalModel(self.artefact_)
        return self

    @overload
    def predict(self, X: ArrayLike, return_std: Literal[False] = False) -> NDArray[np.float64]: ...

    @overload
    def predict(self, X: ArrayLike, return_std: Literal[True]) -> tuple[NDArray[np.float64], NDArray[np.float64]]: ...

    def predict(
        self, X: ArrayLike, return_std: bool = False
    ) -> NDArray[np.float64] | tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the mean (m,); with `return_std` also the standard deviation of a new target (m,), noise included. Of
        several targets (m, t) each."""
        if not return_std:
            return self._of_targets(self._arrays(X, PredictOptions(mean_only=True)), "mean")
        arrays = self._arrays(X, PredictOptions())
        return self._of_targets(arrays, "mean"), self._of_targets(arrays, "std")

    def predict_interval(self, X: ArrayLike, level: float = 0.95) -> NDArray[np.float64]:
        """Return the lower and upper end (m, 2), of several targets (m, 2, t), of what holds a new target with this
        probability."""
        with model_errors():
            options = PredictOptions(levels=(float(level),))
        arrays = self._arrays(X, options)
        return np.stack([self._of_targets(arrays, end) for end in ("lower", "upper")], axis=1)

    def predict_quantiles(self, X: ArrayLike, quantiles: Sequence[float] = (0.05, 0.5, 0.95)) -> NDArray[np.float64]:
        """Return quantiles (m, q) of a new target, of several (m, q, t)."""
        probabilities = tuple(map(float, quantiles))
        with model_errors():
            options = PredictOptions(quantiles=probabilities)
        arrays = self._arrays(X, options)
        return np.stack(
            [self._of_targets(arrays, f"quantile_{probability!r}") for probability in probabilities], axis=1
        )

    def save(self, path: str | PathLike[str]) -> Path:
        """Write the fitted model as a file that `load` reads and a server imports; return the path."""
        check_is_fitted(self, "artefact_")
        return write_whole(path, self.artefact_)

    def export(self, path: str | PathLike[str], *, form: str | None = None, interval: float | None = None) -> Path:
        """Write the fitted model as ONNX (`.onnx`) or as a script for numpy alone (`.zip`); return the path.

        Its inputs are the columns of X by name, `x0` and so on where they have none. See `Model.export`.
        """
        check_is_fitted(self, "artefact_")
        return self._model.export(path, form=form, interval=interval)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what is made from the artefact."""
        state: dict[str, Any] = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_model"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if "artefact_" in state:
            self._model = LocalModel(self.artefact_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def _of_targets(self, arrays: Mapping[str, NDArray[np.float64]], name: str) -> NDArray[np.float64]:
        """Return an array of the target (m,), or of all (m, t) of several."""
        loaded = self._model.loaded
        if loaded.others is None:
            return arrays[name]
        return np.column_stack([arrays[of_target(name, place)] for place in range(len(loaded.schema.targets))])

    def _arrays(self, X: ArrayLike, options: PredictOptions) -> dict[str, NDArray[np.float64]]:
        check_is_fitted(self, "artefact_")
        inputs = validate_data(self, X, dtype=np.float64, order="C", reset=False)
        with model_errors(), one_blas_thread():
            parts = [
                answer_arrays(self._model.loaded, inputs[start : start + _PIECE_ROWS], options, first_row=start)
                for start in range(0, len(inputs), _PIECE_ROWS)
            ]
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

    def explain(self, X: Any, *, nearest: int = 5) -> Explanation:
        """Explain predictions: each input's part of the difference to the average, the nearest training rows, the
        distance from them; see `Client.explain`."""
        check_is_fitted(self, "artefact_")
        return self._model.explain(X, nearest=nearest)

    def _train(
        self,
        inputs: NDArray[np.float64],
        targets: NDArray[np.float64],
        target: str,
        weights: NDArray[np.float64] | None,
    ) -> tuple[bytes, dict[str, Any]]:
        """Return the artefact and the report."""
        names = self._feature_names(inputs)
        while target in names:
            target += "_"
        body = read_spec(self._spec(), max_basis_size=_LARGEST_BASIS)
        schema = Schema(target=target, features=tuple(Feature(name=name, kind=Kind.NUMBER) for name in names))
        design_matrix = DesignMatrix(
            inputs=inputs,
            targets=targets,
            groups=schema.groups,
            indicator=schema.indicator,
            rows=np.arange(len(targets)),
            dropped=0,
            weights=np.empty(0) if weights is None else weights,
        )
        if weights is not None and not weights.all():
            absent = np.flatnonzero(weights == 0.0)
            design_matrix = design_matrix.without(
                absent, f"{len(absent):,} of {len(weights):,} rows have a weight of 0"
            )
        if body.duplicates == "drop":
            design_matrix = without_copies(design_matrix)
        dataset = dataset_of(design_matrix)
        spec = core_spec(body, schema.group_names, design_matrix.rows)
        result = train(dataset, spec, workers=_threads(self.n_jobs))
        profile = profile_of(schema, design_matrix)
        report = build_report(schema, design_matrix, result, profile=profile, rows_uploaded=len(targets), seconds={})
        return artefact.save(build_artefact(body, schema, design_matrix, result, report, profile)), report

    def _train_several(
        self, inputs: NDArray[np.float64], targets: NDArray[np.float64], names: list[str]
    ) -> tuple[bytes, dict[str, Any]]:
        """Do the same for several targets (n, t) of these names."""
        columns = self._feature_names(inputs)
        for place in range(len(names)):
            while names[place] in (*columns, *names[:place]):
                names[place] += "_"
        body = read_spec(self._spec(), max_basis_size=_LARGEST_BASIS)
        features = tuple(Feature(name=name, kind=Kind.NUMBER) for name in columns)
        schema = Schema(target=names[0], features=features, other_targets=tuple(names[1:]))
        matrices = [
            DesignMatrix(
                inputs=inputs,
                targets=np.ascontiguousarray(y),
                groups=schema.groups,
                indicator=schema.indicator,
                rows=np.arange(len(y)),
                dropped=0,
            )
            for y in targets.T
        ]
        told = Told(rows=len(targets), seconds={})
        found = train_matrices(matrices, schema, body, told, workers=_threads(self.n_jobs))
        return artefact.save(found.artefact), found.report

    def _feature_names(self, inputs: NDArray[np.float64]) -> list[str]:
        return [*map(str, getattr(self, "feature_names_in_", [f"x{place}" for place in range(inputs.shape[1])]))]

    def _spec(self) -> dict[str, Any]:
        """Return the specification: what is another than by default, so that the service's rules of defaults hold."""
        spec = {
            name: parameter
            for name, parameter in self.get_params(deep=False).items()
            if name not in {"random_state", "n_jobs"} and parameter != _DEFAULTS[name]
        }
        spec["seed"] = _seed(self.random_state)
        return {name: dict(value) if isinstance(value, Mapping) else _plain(value) for name, value in spec.items()}


def _counts(weights: ArrayLike, targets: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return weights as numbers, (n,). InvalidError for any other."""
    found = np.asarray(weights, dtype=np.float64)
    if targets.ndim == 2:
        raise InvalidError("weights: rows of several targets all count the same; fit one target at a time")
    if found.shape != targets.shape:
        raise InvalidError(f"weights: expected one for each of the {len(targets)} rows, got shape {found.shape}")
    wrong = np.flatnonzero(~(np.isfinite(found) & (found >= 0.0)))
    if len(wrong):
        raise InvalidError(f"weights: row {wrong[0]}: expected a number of at least 0, got {float(found[wrong[0]])!r}")
    if np.count_nonzero(found) < 2:
        raise InvalidError("weights: at least 2 rows have to count for more than 0")
    return found


_DEFAULTS = SparseGPRegressor().get_params(deep=False)


def _seed(random_state: int | np.random.RandomState | None) -> int:
    if isinstance(random_state, int | np.integer):
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31 - 1))


def _threads(n_jobs: int | None) -> int:
    """Return the threads that are meant, as scikit-learn counts them."""
    if n_jobs == 0:
        raise InvalidError("n_jobs: expected a number other than 0, or None for one thread, got 0")
    return max(1, 1 if n_jobs is None else n_jobs if n_jobs > 0 else available_cores() + 1 + n_jobs)


def _plain(value: object) -> object:
    """Return a number of numpy, as searches over parameters have them, as one of Python."""
    return value.item() if isinstance(value, np.generic) else value
