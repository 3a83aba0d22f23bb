"""One peer in a process of its own: trains on what `tests.benchmarks.peers` wrote, prints its figures as a JSON line.

    python -m tests.benchmarks.peer_runs NAME FILE.npz

All see the same inputs and targets, standardized by the training rows, and begin where a user's first try would: the
Gaussian kernel with a lengthscale for each column, lengthscales of sqrt(columns), signal variance 1, noise .1, and
the same random rows as first inducing points. What a peer imports is imported before its clock starts.
"""

import json
import sys
import time
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from tests.benchmarks.peer_measures import FloatArray, Predict, microseconds, peak_mib, scores

BASIS_SIZE, QUICK_BASIS_SIZE = 500, 600
THREADS = 2
NORMAL_95 = 1.959964
SIGNAL, NOISE = 1.0, 0.1
BATCH = 10_000
SUBSET, SUBSET_SECONDS = 2_000, 60.0
ITERATIONS, EPOCHS, ON_THE_WAY = 100, 20, (0.125, 0.25, 0.5)
"""Iterative peers are measured after these shares of its iterations or epochs as well."""
WIDE, WIDE_ITERATIONS = 16, 36
"""Columns above which GPBoost gets fewer iterations, and how many: its 1,000 are not over in 400 s."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """A peer on its way: what it could predict after so many seconds. Made afterwards, off its clock."""

    seconds: float
    predict: Callable[[], Predict]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trained:
    """Result of a peer. deviations: half of its 95% interval, in standard deviations; note: for the table."""

    predict: Predict
    deviations: float = NORMAL_95
    note: str = ""
    stops: tuple[Stop, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """A row of the table, the modules that must be there (the last one has the version), and how it trains."""

    label: str
    modules: tuple[str, ...]
    train: Callable[[FloatArray, FloatArray], Trained]


def pursuit(X: FloatArray, y: FloatArray, *, basis_size: int = BASIS_SIZE, **asked: Any) -> Trained:
    """Ours: the published model, calibrated, all rows of training seen."""
    from core.data import Dataset
    from core.predict.model import ModelPredictor
    from core.spec import TrainSpec
    from core.train.run import train

    spec = TrainSpec(basis_size=basis_size, **asked)
    result = train(Dataset(inputs=X, targets=y), spec, workers=THREADS)
    predictor = ModelPredictor(result.model)

    def predict(Xs: FloatArray) -> tuple[FloatArray, FloatArray]:
        target = predictor.predict(Xs)
        return target.centre, target.variance

    phases = ", ".join(f"{phase} {seconds:.1f}" for phase, seconds in result.report.seconds.items())
    return Trained(predict=predict, deviations=result.model.calibration.quantile(0.975), note=phases)


def pursuit_quick(X: FloatArray, y: FloatArray) -> Trained:
    """No rounds: the start's hyperparameters choose the rows, then both move together for a few steps.

    A fifth more basis vectors reach in 18 steps what 500 reach in 40, and so in fewer seconds.
    """
    from core.spec import Refinement

    return pursuit(X, y, basis_size=QUICK_BASIS_SIZE, power=0.6, adaptation=None, refinement=Refinement(steps=18))


def pursuit_refined(X: FloatArray, y: FloatArray) -> Trained:
    """All rounds, then as many steps as the basis vectors gain from."""
    from core.spec import Refinement

    return pursuit(X, y, power=0.6, refinement=Refinement(steps=100))


def gpflow_sgpr(X: FloatArray, y: FloatArray) -> Trained:
    """SGPR, inducing points trained, L-BFGS of 100 iterations; predictions compiled."""
    import gpflow
    import tensorflow as tf

    begin = time.perf_counter()
    kernel = gpflow.kernels.SquaredExponential(variance=SIGNAL, lengthscales=_lengthscales(X))
    model = gpflow.models.SGPR((X, y[:, None]), kernel, inducing_variable=_random_rows(X, BASIS_SIZE))
    model.likelihood.variance.assign(NOISE)
    looks, seen = _looks(ITERATIONS), []

    def look(step: int, variables: Any, values: Any) -> None:
        if step + 1 in looks:
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


def gpytorch_sgpr(X: FloatArray, y: FloatArray) -> Trained:
    """SGPR in float32, Adam of 100 iterations at a rate of .1."""
    import gpytorch
    import torch

    begin = time.perf_counter()
    inputs, targets = _tensors(X, y)
    likelihood = gpytorch.likelihoods.GaussianLikelihood()

    class Model(gpytorch.models.ExactGP):  # type: ignore[misc]  # the peers are not there when types are checked
        def __init__(self) -> None:
            super().__init__(inputs, targets, likelihood)
            self.mean_module = gpytorch.means.ConstantMean()
            self.covar_module = gpytorch.kernels.InducingPointKernel(
                _torch_kernel(X), torch.tensor(_random_rows(X, BASIS_SIZE), dtype=torch.float32), likelihood
            )

        def forward(self, x: Any) -> Any:
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    likelihood.noise = NOISE
    model = Model()
    loss_of = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    looks, stops = _looks(ITERATIONS), []
    for step in range(ITERATIONS):
        optimizer.zero_grad()
        loss = -loss_of(model(inputs), targets)
        loss.backward()
        optimizer.step()
        if step + 1 in looks:
            stops.append(_torch_stop(begin, model, likelihood))
    predict = _torch_predict(model, likelihood)
    return Trained(predict=predict, note=f"float32, {ITERATIONS} iterations", stops=tuple(stops))


def gpytorch_svgp(X: FloatArray, y: FloatArray) -> Trained:
    """SVGP in float32, Adam of 20 epochs at a rate of .05 (better than .01 on kin40k), batches of 1,024."""
    import gpytorch
    import torch

    begin = time.perf_counter()
    inputs, targets = _tensors(X, y)

    class Model(gpytorch.models.ApproximateGP):  # type: ignore[misc]  # as above
        def __init__(self) -> None:
            start = torch.tensor(_random_rows(X, BASIS_SIZE), dtype=torch.float32)
            distribution = gpytorch.variational.CholeskyVariationalDistribution(BASIS_SIZE)
            super().__init__(
                gpytorch.variational.VariationalStrategy(self, start, distribution, learn_inducing_locations=True)
            )
            self.mean_module = gpytorch.means.ConstantMean()
            self.covar_module = _torch_kernel(X)

        def forward(self, x: Any) -> Any:
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    likelihood = gpytorch.likelihoods.GaussianLikelihood()
    likelihood.noise = NOISE
    model = Model()
    loss_of = gpytorch.mlls.VariationalELBO(likelihood, model, num_data=len(y))
    optimizer = torch.optim.Adam([*model.parameters(), *likelihood.parameters()], lr=0.05)
    generator = torch.Generator().manual_seed(0)
    looks, stops = _looks(EPOCHS), []
    for epoch in range(EPOCHS):
        for batch in torch.randperm(len(y), generator=generator).split(1024):
            optimizer.zero_grad()
            loss = -loss_of(model(inputs[batch]), targets[batch])
            loss.backward()
            optimizer.step()
        if epoch + 1 in looks:
            stops.append(_torch_stop(begin, model, likelihood))
    return Trained(predict=_torch_predict(model, likelihood), note=f"float32, {EPOCHS} epochs", stops=tuple(stops))


def sklearn_subset(X: FloatArray, y: FloatArray) -> Trained:
    """A full GP on random rows; its own L-BFGS-B, which ends after a minute with the best it has."""
    from scipy.optimize import minimize
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

    begin = time.perf_counter()
    stopped = False

    def optimizer(objective: Any, theta: Any, bounds: Any) -> tuple[FloatArray, float]:
        def look(_: FloatArray) -> None:
            nonlocal stopped
            if time.perf_counter() - begin > SUBSET_SECONDS:
                stopped = True
                raise StopIteration

        callback: Any = look  # scipy calls it by place, its types by name
        end = minimize(objective, theta, jac=True, method="L-BFGS-B", bounds=bounds, callback=callback)
        return end.x, float(end.fun)

    some = np.random.default_rng(0).permutation(len(X))[:SUBSET]
    kernel = ConstantKernel(SIGNAL) * RBF(_lengthscales(X)) + WhiteKernel(NOISE)
    model = GaussianProcessRegressor(kernel, optimizer=optimizer).fit(X[some], y[some])

    def predict(Xs: FloatArray) -> tuple[FloatArray, FloatArray]:
        mean, deviation = model.predict(Xs, return_std=True)
        return mean, np.square(deviation)

    cut = f", stopped at {SUBSET_SECONDS:.0f} s" if stopped else ""
    return Trained(predict=predict, note=f"{len(some):,} rows{cut}")


def gpboost_vecchia(X: FloatArray, y: FloatArray) -> Trained:
    """Vecchia's approximation with its defaults."""
    import gpboost

    model = gpboost.GPModel(gp_coords=X, cov_function="gaussian_ard", gp_approx="vecchia")
    wide = X.shape[1] > WIDE
    model.fit(y=y, params={"maxit": WIDE_ITERATIONS} if wide else {})

    def predict(Xs: FloatArray) -> tuple[FloatArray, FloatArray]:
        found = model.predict(gp_coords_pred=Xs, predict_var=True, predict_response=True)
        return found["mu"], found["var"]

    return Trained(predict=predict, note=f"{WIDE_ITERATIONS} iterations, for it does not end" if wide else "")


PEERS = {
    "pursuit-quick": Peer(label="Pursuit, quick, d = 600", modules=("core.train.run",), train=pursuit_quick),
    "pursuit": Peer(label="Pursuit, defaults", modules=("core.train.run",), train=pursuit),
    "pursuit-refined": Peer(label="Pursuit, refined", modules=("core.train.run",), train=pursuit_refined),
    "gpflow": Peer(label="GPflow SGPR", modules=("tensorflow", "gpflow"), train=gpflow_sgpr),
    "gpytorch-sgpr": Peer(label="GPyTorch SGPR", modules=("torch", "gpytorch"), train=gpytorch_sgpr),
    "gpytorch-svgp": Peer(label="GPyTorch SVGP", modules=("torch", "gpytorch"), train=gpytorch_svgp),
    "sklearn": Peer(label="scikit-learn GPR", modules=("sklearn.gaussian_process", "sklearn"), train=sklearn_subset),
    "gpboost": Peer(label="GPBoost Vecchia", modules=("gpboost",), train=gpboost_vecchia),
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
    begin = time.perf_counter()
    trained = peer.train(X, y)
    seconds = time.perf_counter() - begin
    version = getattr(loaded[peer.modules[-1]], "__version__", "")
    figures = {
        "version": version,
        "seconds": seconds,
        "note": trained.note,
        **scores(trained.predict, trained.deviations, Xs, ys),
    }
    figures["single_us"] = microseconds(trained.predict, Xs[:1])
    figures["batch_us"] = microseconds(trained.predict, np.resize(Xs, (BATCH, Xs.shape[1])))
    figures["peak_mib"] = peak_mib()
    figures["on_the_way"] = [
        {"seconds": stop.seconds, **scores(stop.predict(), trained.deviations, Xs, ys)} for stop in trained.stops
    ]
    print(json.dumps(figures))


def _hold_threads(loaded: dict[str, Any]) -> None:
    """Limit the threads of the libraries that ignore the environment."""
    if "tensorflow" in loaded:
        loaded["tensorflow"].config.threading.set_intra_op_parallelism_threads(THREADS)
        loaded["tensorflow"].config.threading.set_inter_op_parallelism_threads(THREADS)
    if "torch" in loaded:
        loaded["torch"].set_num_threads(THREADS)
        loaded["torch"].manual_seed(0)


def _lengthscales(X: FloatArray) -> FloatArray:
    return np.full(X.shape[1], np.sqrt(X.shape[1]))


def _looks(most: int) -> frozenset[int]:
    return frozenset(round(share * most) for share in ON_THE_WAY)


def _random_rows(X: FloatArray, count: int) -> FloatArray:
    return X[np.random.default_rng(0).permutation(len(X))[:count]].copy()


def _tensors(X: FloatArray, y: FloatArray) -> tuple[Any, Any]:
    import torch

    return torch.tensor(X, dtype=torch.float32), torch.tensor(y, dtype=torch.float32)


def _torch_kernel(X: FloatArray) -> Any:
    import gpytorch
    import torch

    kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel(ard_num_dims=X.shape[1]))
    kernel.base_kernel.lengthscale = torch.tensor(_lengthscales(X), dtype=torch.float32)
    kernel.outputscale = SIGNAL
    return kernel


def _torch_stop(begin: float, model: Any, likelihood: Any) -> Stop:
    """A copy of what there is: an exact model's likelihood is part of it, another's is not."""
    seconds = time.perf_counter() - begin
    kept = deepcopy((model.state_dict(), likelihood.state_dict()))

    def earlier() -> Predict:
        model.train()  # forgets what it has computed for predictions
        model.load_state_dict(kept[0])
        likelihood.load_state_dict(kept[1])
        return _torch_predict(model, likelihood)

    return Stop(seconds=seconds, predict=earlier)


def _torch_predict(model: Any, likelihood: Any) -> Predict:
    import torch

    model.eval()
    likelihood.eval()

    def predict(Xs: FloatArray) -> tuple[FloatArray, FloatArray]:
        with torch.no_grad():
            found = likelihood(model(torch.tensor(Xs, dtype=torch.float32)))
            return found.mean.double().numpy(), found.variance.double().numpy()

    return predict


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
