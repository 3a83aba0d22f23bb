"""core/hyperparameters.py: what is let in, and the units."""

import numpy as np
import pytest

from core.errors import InvalidSpecError
from core.hyperparameters import Hyperparameters

GOOD: dict[str, object] = {
    "lengthscales": [1.0, 2.0],
    "signal_variance": 1.5,
    "bias_variance": 0.25,
    "noise_variance": 0.1,
}


def made(**changes: object) -> Hyperparameters:
    return Hyperparameters(**{**GOOD, **changes})  # type: ignore[arg-type]  # wrong types are part of the tests


def test_weights_and_prior_variance() -> None:
    np.testing.assert_allclose(made().weights, [0.5, 0.125], rtol=1e-15)
    assert made().prior_variance == 1.75


def test_lengthscales_are_a_copy_that_cannot_be_written() -> None:
    given = np.array([1.0, 2.0])
    hyperparameters = made(lengthscales=given)
    given[0] = 9.0
    assert hyperparameters.lengthscales[0] == 1.0
    with pytest.raises(ValueError, match="read-only"):
        hyperparameters.lengthscales[0] = 3.0


def test_no_bias_is_allowed() -> None:
    assert made(bias_variance=0).bias_variance == 0.0


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("lengthscales", [1.0, 0.0]),
        ("lengthscales", [1.0, -1.0]),
        ("lengthscales", [1.0, np.nan]),
        ("lengthscales", [1.0, np.inf]),
        ("lengthscales", [[1.0, 2.0]]),
        ("signal_variance", 0.0),
        ("signal_variance", -1.0),
        ("signal_variance", np.nan),
        ("bias_variance", -1e-300),
        ("bias_variance", np.inf),
        ("noise_variance", 0.0),
        ("noise_variance", -0.1),
        ("noise_variance", np.nan),
    ],
)
def test_impossible_values_are_refused_by_name(field: str, value: object) -> None:
    with pytest.raises(InvalidSpecError, match=f"^{field}: ") as caught:
        made(**{field: value})
    assert caught.value.field == field
