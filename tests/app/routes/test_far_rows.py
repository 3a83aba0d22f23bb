"""Rows far from all training rows are told of without being asked for, in every form of an answer."""

import io
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from app.services.predict.far_rows import FAR, TOLD_ROWS
from tests.app.routes.service import QUICK, Service, curve, running

ROWS = [[1.0], [60.0], [2.0], [-80.0]]
CSV = "x\n" + "".join(f"{x}\n" for (x,) in ROWS)
SAID = "2 rows are far from all training rows, their predictions little more than an average: 1, 3"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """`curve`, a function of x from 0 to 6; `constant`, of which x tells nothing; `sor`, whose prior ends."""
    with running(tmp_path_factory.mktemp("service")) as service:
        service.train(curve(200, lambda chance, _: chance.gauss(0, 0.3)), model="curve", **QUICK)
        service.train(
            curve(200, lambda chance, _: chance.gauss(0, 1), bend=lambda y: 1e-6 * y),
            model="sor",
            **QUICK,
            approximation="sor",
        )
        chance = np.random.default_rng(0)
        noise = "\n".join(f"{x!r},{y!r}" for x, y in chance.normal(size=(200, 2)).tolist())
        service.train(f"x,y\n{noise}\n", model="constant", **QUICK)
        yield service


def test_json_has_a_warning_with_a_count_and_the_rows(trained: Service) -> None:
    found = trained.ask("curve", ROWS)
    assert found["warnings"] == [{"kind": "far", "message": SAID, "count": 2, "rows": [1, 3]}]
    assert "support" not in found
    support = trained.ask("curve", ROWS, include=["support"])["support"]
    assert [value >= FAR for value in support] == [False, True, False, True]
    one = trained.ask("curve", [[60.0]])["warnings"][0]
    assert one["message"] == "row 0 is far from all training rows: its prediction is little more than their average"


def test_rows_among_the_data_and_means_alone_have_none(trained: Service) -> None:
    assert "warnings" not in trained.ask("curve", [[x / 10] for x in range(60)])
    assert "warnings" not in trained.ask("curve", ROWS, interval=False)
    assert "warnings" not in trained.ask("curve", [])


@pytest.mark.parametrize("model", ["constant", "sor"])
def test_a_model_that_knows_no_far_rows_says_nothing(trained: Service, model: str) -> None:
    assert "warnings" not in trained.ask(model, ROWS)


def test_many_rows_are_counted_and_the_first_named(trained: Service) -> None:
    found = trained.ask("curve", [[3.0]] * 2500 + [[70.0]] * 2500)["warnings"][0]
    assert (found["count"], found["rows"]) == (2500, list(range(2500, 2500 + TOLD_ROWS)))
    assert found["message"].endswith(f"{2499 + TOLD_ROWS}, ..")


@pytest.mark.parametrize("accept", ["text/csv", "application/x-npy"])
def test_files_have_a_header_and_the_columns_they_had(trained: Service, accept: str) -> None:
    headers = {"content-type": "text/csv", "accept": accept}
    answer = trained.client.post("/predict?model=curve", content=CSV, headers=headers)
    assert answer.headers["x-warnings"] == SAID
    if accept == "text/csv":
        assert answer.text.splitlines()[0] == "mean,std,lower,upper"
    else:
        assert np.load(io.BytesIO(answer.content)).shape == (4, 4)
    near = trained.client.post("/predict?model=curve", content="x\n1\n", headers=headers)
    assert "x-warnings" not in near.headers


def test_the_inference_protocol_says_it_in_its_parameters(trained: Service) -> None:
    tensor: dict[str, Any] = {"name": "rows", "datatype": "FP64", "shape": [4, 1], "data": [x for (x,) in ROWS]}
    found = trained.client.post("/v2/models/curve/infer", json={"inputs": [tensor]}).json()
    assert found["parameters"]["warnings"] == SAID
    assert [output["name"] for output in found["outputs"]] == ["mean", "std", "lower", "upper"]
