"""GPyTorch's sparse processes as peers, in float32 by Adam; the library is imported where a peer begins."""

import time
from copy import deepcopy
from typing import Any

from tests.benchmarks.peer_measures import FloatArray, Predict
from tests.benchmarks.peer_start import (
    BASIS_SIZE,
    EPOCHS,
    ITERATIONS,
    NOISE,
    SIGNAL,
    Stop,
    Trained,
    lengthscales,
    looks,
    random_rows,
)


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
                _torch_kernel(X), torch.tensor(random_rows(X, BASIS_SIZE), dtype=torch.float32), likelihood
            )

        def forward(self, x: Any) -> Any:
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    likelihood.noise = NOISE
    model = Model()
    loss_of = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    shares, stops = looks(ITERATIONS), []
    for step in range(ITERATIONS):
        optimizer.zero_grad()
        loss = -loss_of(model(inputs), targets)
        loss.backward()
        optimizer.step()
        if step + 1 in shares:
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
            start = torch.tensor(random_rows(X, BASIS_SIZE), dtype=torch.float32)
            distribution = gpytorch.variational.CholeskyVariationalDistribution(len(start))
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
    shares, stops = looks(EPOCHS), []
    for epoch in range(EPOCHS):
        for batch in torch.randperm(len(y), generator=generator).split(1024):
            optimizer.zero_grad()
            loss = -loss_of(model(inputs[batch]), targets[batch])
            loss.backward()
            optimizer.step()
        if epoch + 1 in shares:
            stops.append(_torch_stop(begin, model, likelihood))
    return Trained(predict=_torch_predict(model, likelihood), note=f"float32, {EPOCHS} epochs", stops=tuple(stops))


def _tensors(X: FloatArray, y: FloatArray) -> tuple[Any, Any]:
    import torch

    return torch.tensor(X, dtype=torch.float32), torch.tensor(y, dtype=torch.float32)


def _torch_kernel(X: FloatArray) -> Any:
    import gpytorch
    import torch

    kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel(ard_num_dims=X.shape[1]))
    kernel.base_kernel.lengthscale = torch.tensor(lengthscales(X), dtype=torch.float32)
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
