"""One peer in a process of its own: trains on what `tests.benchmarks.peers` wrote, prints its figures as a JSON line.

    python -m tests.benchmarks.peer_runs NAME FILE.npz

All see the same inputs and targets, standardized by the training rows. Gaussian processes begin where a user's first
try would: a lengthscale for each column, of sqrt(columns), signal variance 1, noise .1, and the same random rows as
first inducing points. What a peer imports is imported before its clock starts.
"""

import json
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from tests.benchmarks.peer_gpytorch import gpytorch_sgpr, gpytorch_svgp
from tests.benchmarks.peer_measures import FloatArray, Predict, microseconds, peak_mib, scores, scores_of
from tests.benchmarks.peer_start import (
    BASIS_SIZE,
    ITERATIONS,
    NOISE,
    SIGNAL,
    Stop,
    Trained,
    lengthscales,
    looks,
    random_rows,
)

THREADS = 2
BATCH = 10_000
SUBSET, SUBSET_SECONDS = 2_000, 90.0
EXACT_ROWS = 10_000
"""Rows above which a peer's exact process takes gigabytes."""
WIDE, WIDE_ITERATIONS = 16, 36
"""Columns above which GPBoost gets fewer iterations, and how many: its 1,000 are not over in 400 s."""
NEIGHBOURS = 20
TREES = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """A row of the table, the modules that must be there (the last one has the version), and how it trains."""

    label: str
    modules: tuple[str, ...]
    train: Callable[[FloatArray, FloatArray], Trained]


def pursuit(X: FloatArray, y: FloatArray, *, effort: str) -> Trained:
    """Ours with what the service asks by default: calibrated, all rows of training seen."""
    from core.data import Dataset
    from core.predict.model import ModelPredictor
    from core.spec import Effort
    from core.train.run import train
    from tests.benchmarks.effort import kind, specification

    result = train(Dataset(inputs=X, targets=y), specification(Effort(effort), 0), workers=THREADS)
    predictor = ModelPredictor(result.model)

    def predict(Xs: FloatArray) -> tuple[FloatArray, FloatArray]:
        mean, variance = predictor.predict(Xs).moments()
        return mean, variance

    return Trained(predict=predict, distribution=predictor.predict, size=predictor.nbytes, note=kind(result.report))


def gpflow_sgpr(X: FloatArray, y: FloatArray) -> Trained:
    """SGPR, inducing points trained, L-BFGS of 100 iterations; predictions compiled."""
    import gpflow
    import tensorflow as tf

    begin = time.perf_counter()
    kernel = gpflow.kernels.SquaredExponential(variance=SIGNAL, lengthscales=lengthscales(X))
    model = gpflow.models.SGPR((X, y[:, None]), kernel, inducing_variable=random_rows(X, BASIS_SIZE))
    model.likelihood.variance.assign(NOISE)
    shares, seen = looks(ITERATIONS), []

    def look(step: int, variables: Any, values: Any) -> None:
        if step + 1 in shares:
            seen.append((time.perf_counter() - begin, [np.array(value) for value in values], variables))

    end = gpflow.optimizers.Scipy().minimize(
        model.training_loss, model.trainable_variables, options={"maxiter": ITERATIONS}, step_callback=look
    )

    def published() -> Predict:
        posterior = model.posterior()
        noise = float(model.likelihood.variance.numpy())
        compiled = tf.function(
            posterior.predict_f, input_signature=[tf.TensorSpec(shape=[None, X.shape[1]], dtype=tf.float64)]
        )

        def predict(Xs: FloatArray) -> tuple[FloatArray, FloatArray]:
            mean, variance = compiled(Xs)
            return mean.numpy()[:, 0], variance.numpy()[:, 0] + noise

        return predict

    def earlier(variables: Any, values: list[FloatArray]) -> Predict:
        for variable, value in zip(variables, values, strict=True):
            variable.assign(value)
        return published()

    stops = tuple(Stop(seconds=at, predict=partial(earlier, variables, values)) for at, values, variables in seen)
    return Trained(predict=published(), note=f"{end.nit} iterations", stops=stops)


def sklearn_subset(X: FloatArray, y: FloatArray) -> Trained:
    """An exact process on random rows."""
    some = np.random.default_rng(0).permutation(len(X))[:SUBSET]
    model, note = _sklearn_fitted(X[some], y[some])
    return Trained(
        predict=partial(_sklearn_predict, model), size=_triangle(len(some), X), note=f"{len(some):,} rows{note}"
    )


def sklearn_exact(X: FloatArray, y: FloatArray) -> Trained:
    """An exact process on all rows, with the hyperparameters of one on random rows."""
    from sklearn.gaussian_process import GaussianProcessRegressor

    if len(X) > EXACT_ROWS:
        raise SystemExit(f"more than {EXACT_ROWS:,} rows")
    some = np.random.default_rng(0).permutation(len(X))[:SUBSET]
    found, note = _sklearn_fitted(X[some], y[some])
    model = GaussianProcessRegressor(found.kernel_, optimizer=None).fit(X, y)
    return Trained(
        predict=partial(_sklearn_predict, model), size=_triangle(len(X), X), note=f"theta of {len(some):,} rows{note}"
    )


def sklearn_gaussian(X: FloatArray, y: FloatArray) -> Trained:
    """An exact process on all rows, with the kernel of most first tries."""
    from sklearn.gaussian_process.kernels import RBF

    if len(X) > SUBSET:
        raise SystemExit(f"more than {SUBSET:,} rows")
    model, note = _sklearn_fitted(X, y, RBF(lengthscales(X)))
    return Trained(predict=partial(_sklearn_predict, model), size=_triangle(len(X), X), note=f"gaussian kernel{note}")


def _sklearn_fitted(X: FloatArray, y: FloatArray, family: Any = None) -> tuple[Any, str]:
    """A process, Matern 2.5 if no other, by its own L-BFGS-B, which ends after SUBSET_SECONDS of the processor with the
    best it has, and whether it did."""
    from scipy.optimize import minimize
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

    begin = time.process_time()
    stopped = False

    def optimizer(objective: Any, theta: Any, bounds: Any) -> tuple[FloatArray, float]:
        def look(_: FloatArray) -> None:
            nonlocal stopped
            if time.process_time() - begin > SUBSET_SECONDS:
                stopped = True
                raise StopIteration

        callback: Any = look  # scipy calls it by place, its types by name
        end = minimize(objective, theta, jac=True, method="L-BFGS-B", bounds=bounds, callback=callback)
        return end.x, float(end.fun)

    family = Matern(lengthscales(X), nu=2.5) if family is None else family
    kernel = ConstantKernel(SIGNAL) * family + WhiteKernel(NOISE)
    model = GaussianProcessRegressor(kernel, optimizer=optimizer).fit(X, y)
    return model, f", stopped at {SUBSET_SECONDS:.0f} s" if stopped else ""


def _sklearn_predict(model: Any, Xs: FloatArray) -> tuple[FloatArray, FloatArray]:
    mean, deviation = model.predict(Xs, return_std=True)
    return mean, np.square(deviation)


def _triangle(rows: int, X: FloatArray) -> int:
    """Bytes of an exact process: its Cholesky factor as it is kept, rows and weights."""
    return int(8 * rows * (rows + X.shape[1] + 1))


def gpboost(X: FloatArray, y: FloatArray, *, approximation: str, **asked: Any) -> Trained:
    """Matern 1.5 with nearest neighbours."""
    import gpboost as library

    model = library.GPModel(gp_coords=X, cov_function="matern_ard", cov_fct_shape=1.5, gp_approx=approximation, **asked)
    wide = X.shape[1] > WIDE
    model.fit(y=y, params={"maxit": WIDE_ITERATIONS} if wide else {})

    def predict(Xs: FloatArray) -> tuple[FloatArray, FloatArray]:
        found = model.predict(gp_coords_pred=Xs, predict_var=True, predict_response=True)
        return found["mu"], found["var"]

    note = f"{WIDE_ITERATIONS} iterations, for it does not end" if wide else ""
    return Trained(predict=predict, size=8 * X.size + 8 * len(y), note=note)


def lightgbm(X: FloatArray, y: FloatArray) -> Trained:
    """Trees, as many as a tenth of the rows, left out, asks for."""
    import lightgbm as library

    learn, left = _tenth(len(X))
    model = library.LGBMRegressor(n_estimators=TREES, learning_rate=0.05, n_jobs=THREADS, verbose=-1)
    stop = library.early_stopping(50, verbose=False)
    model.fit(X[learn], y[learn], eval_set=[(X[left], y[left])], callbacks=[stop])
    return Trained(
        predict=_certain(model.predict),
        certain=True,
        size=len(model.booster_.model_to_string()),
        note=f"{model.best_iteration_} trees",
    )


def catboost(X: FloatArray, y: FloatArray) -> Trained:
    """Trees, as many as a tenth of the rows, left out, asks for."""
    import catboost as library

    learn, left = _tenth(len(X))
    model = library.CatBoostRegressor(
        iterations=TREES, thread_count=THREADS, verbose=False, early_stopping_rounds=50, allow_writing_files=False
    )
    model.fit(X[learn], y[learn], eval_set=(X[left], y[left]))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "model.cbm")
        model.save_model(str(file))
        size = file.stat().st_size
    return Trained(predict=_certain(model.predict), certain=True, size=size, note=f"{model.tree_count_} trees")


def _tenth(rows: int) -> tuple[Any, Any]:
    order = np.random.default_rng(0).permutation(rows)
    return order[rows // 10 :], order[: rows // 10]


def _certain(mean: Callable[[FloatArray], FloatArray]) -> Predict:
    """Predictions without error bars; the variance is not looked at."""

    def predict(Xs: FloatArray) -> tuple[FloatArray, FloatArray]:
        return np.asarray(mean(Xs)), np.ones(len(Xs))

    return predict


PEERS = {
    **{
        f"pursuit-{effort}": Peer(
            label=f"Pursuit, {effort}", modules=("core.train.run",), train=partial(pursuit, effort=effort)
        )
        for effort in ("quick", "normal", "best")
    },
    "gpboost": Peer(
        label="GPBoost Vecchia",
        modules=("gpboost",),
        train=partial(gpboost, approximation="vecchia", num_neighbors=NEIGHBOURS),
    ),
    "gpboost-full-scale": Peer(
        label="GPBoost full-scale Vecchia",
        modules=("gpboost",),
        train=partial(gpboost, approximation="full_scale_vecchia"),
    ),
    "exact": Peer(label="scikit-learn GPR", modules=("sklearn.gaussian_process", "sklearn"), train=sklearn_exact),
    "sklearn": Peer(
        label="scikit-learn GPR, subset", modules=("sklearn.gaussian_process", "sklearn"), train=sklearn_subset
    ),
    "exact-gaussian": Peer(
        label="scikit-learn GPR, gaussian", modules=("sklearn.gaussian_process", "sklearn"), train=sklearn_gaussian
    ),
    "gpflow": Peer(label="GPflow SGPR", modules=("tensorflow", "gpflow"), train=gpflow_sgpr),
    "gpytorch-sgpr": Peer(label="GPyTorch SGPR", modules=("torch", "gpytorch"), train=gpytorch_sgpr),
    "gpytorch-svgp": Peer(label="GPyTorch SVGP", modules=("torch", "gpytorch"), train=gpytorch_svgp),
    "lightgbm": Peer(label="LightGBM", modules=("lightgbm",), train=lightgbm),
    "catboost": Peer(label="CatBoost", modules=("catboost",), train=catboost),
}


def main(name: str, file: Path) -> None:
    """Prints the figures, or which module is missing, as the last line."""
    peer = PEERS[name]
    try:
        loaded = {module: import_module(module) for module in peer.modules}
    except ModuleNotFoundError as error:
        print(json.dumps({"missing": error.name}))
        return
    _hold_threads(loaded)
    with np.load(file, allow_pickle=False) as data:
        X, y, Xs, ys = (np.ascontiguousarray(data[key]) for key in ("X", "y", "Xs", "ys"))
    begin, processor = time.perf_counter(), time.process_time()
    trained = peer.train(X, y)
    seconds, processor = time.perf_counter() - begin, time.process_time() - processor
    version = getattr(loaded[peer.modules[-1]], "__version__", "")
    figures = {
        "version": version,
        "seconds": seconds,
        "processor": processor,
        "note": trained.note,
        "bytes": trained.size,
        "certain": trained.certain,
        **_scores(trained, trained.predict, Xs, ys),
    }
    figures["single_us"] = microseconds(trained.predict, Xs[:1])
    figures["batch_us"] = microseconds(trained.predict, np.resize(Xs, (BATCH, Xs.shape[1])))
    figures["peak_mib"] = peak_mib()
    figures["on_the_way"] = [
        {"seconds": stop.seconds, **_scores(trained, stop.predict(), Xs, ys)} for stop in trained.stops
    ]
    print(json.dumps(figures))


def _scores(trained: Trained, predict: Predict, Xs: FloatArray, ys: FloatArray) -> dict[str, float]:
    if trained.distribution is not None:
        return scores_of(trained.distribution, Xs, ys)
    return scores(predict, Xs, ys)


def _hold_threads(loaded: dict[str, Any]) -> None:
    """Limit the threads of the libraries that ignore the environment."""
    if "tensorflow" in loaded:
        loaded["tensorflow"].config.threading.set_intra_op_parallelism_threads(THREADS)
        loaded["tensorflow"].config.threading.set_inter_op_parallelism_threads(THREADS)
    if "torch" in loaded:
        loaded["torch"].set_num_threads(THREADS)
        loaded["torch"].manual_seed(0)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
