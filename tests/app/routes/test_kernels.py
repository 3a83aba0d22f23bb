"""Kernels over HTTP: asked for in a specification, told of in the report, seen in the predictions."""

import math

import pytest

from tests.app.routes.service import Service

ROWS = [(place - 60) / 40 for place in range(121)]
KINKED = "x,y\n" + "".join(f"{x},{abs(x) + 1e-3 * math.sin(1e3 * x)}\n" for x in ROWS)
"""A function with a kink at nought."""


@pytest.mark.parametrize("kernel", ["matern52", "matern32", "matern12"])
def test_a_kernel_is_told_of_and_predicts(service: Service, kernel: str) -> None:
    job = service.train(KINKED, model=kernel, kernel=kernel, adapt={"rounds": 1, "steps": 8}, basis_size=20)
    assert job["result"]["report"]["kernel"] == kernel
    found = service.client.get(f"/models/{kernel}/versions/1").json()
    assert (found["spec"]["kernel"], found["report"]["kernel"]) == (kernel, kernel)
    answer = service.ask(kernel, [[-1.0125], [0.5125]])
    assert answer["mean"] == pytest.approx([1.0125, 0.5125], abs=0.03)


def test_the_schema_names_every_kernel(service: Service) -> None:
    document = service.client.get("/openapi.json").json()
    found = document["components"]["schemas"]["KernelChoice"]["enum"]
    assert found == ["auto", "gaussian", "matern52", "matern32", "matern12"]


def test_auto_says_which_kernel_it_took(service: Service) -> None:
    job = service.train(KINKED, model="auto", kernel="auto", adapt={"rounds": 1, "steps": 8})
    assert job["result"]["report"]["kernel"] in ("matern52", "matern32", "matern12")
    assert service.client.get("/models/auto/versions/1").json()["spec"]["kernel"] == "auto"
