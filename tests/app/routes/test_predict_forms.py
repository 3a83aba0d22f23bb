"""npy both ways, the mean alone, and rows that come in pieces."""

import io
import json

import httpx
import numpy as np
import pytest
from numpy.typing import NDArray

from app.services.predict.row_decoder import PIECE_BYTES
from tests.app.routes.problems import assert_problem
from tests.app.routes.service import JSON_BODY, QUICK, Service, curve, even

NPY = "application/x-npy"
ROWS = np.random.default_rng(5).uniform(-1.0, 1.0, (20, 2))


def saved(array: NDArray[np.generic], *, objects: bool = False) -> bytes:
    file = io.BytesIO()
    np.save(file, array, allow_pickle=objects)
    return file.getvalue()


def post(service: Service, array: NDArray[np.generic], query: str = "", accept: str = NPY) -> httpx.Response:
    headers = {"content-type": NPY, "accept": accept}
    return service.client.post(f"/predict?model=numbers{query}", content=saved(array), headers=headers)


def read(answer: httpx.Response) -> NDArray[np.float64]:
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == NPY
    found: NDArray[np.float64] = np.load(io.BytesIO(answer.content), allow_pickle=False)
    return found


def test_npy_in_and_out(service: Service) -> None:
    expected = service.ask("numbers", ROWS.tolist())
    answer = post(service, ROWS)
    assert answer.headers["x-columns"] == "mean,std,lower,upper"
    assert answer.headers["x-model"] == "numbers@1"
    assert read(answer).T.tolist() == [expected[name] for name in ("mean", "std", "lower", "upper")]
    for other in (np.asfortranarray(ROWS), ROWS.astype(">f8")):
        assert post(service, other).content == answer.content
    assert post(service, ROWS, accept="application/json").json() == expected
    rounded = ROWS.astype(np.float32)
    assert read(post(service, rounded))[:, 0].tolist() == service.ask("numbers", rounded.tolist())["mean"]


def test_json_can_be_answered_as_npy(service: Service) -> None:
    body = {
        "model": "numbers",
        "rows": ROWS.tolist(),
        "interval": [0.5, 0.9],
        "quantiles": [0.1],
        "include": ["median"],
    }
    answer = service.client.post("/predict", json=body, headers={"accept": f"{NPY}, application/json;q=0.5"})
    assert answer.headers["x-columns"] == "mean,std,lower_0.5,upper_0.5,lower_0.9,upper_0.9,quantile_0.1,median"
    assert read(answer).shape == (20, 8)


def test_many_rows_as_npy(service: Service) -> None:
    rows = np.random.default_rng(6).uniform(-1.0, 1.0, (5_000, 2))
    found = read(post(service, rows))
    assert found[[0, 2048, 4999]].tolist() == read(post(service, rows[[0, 2048, 4999]])).tolist()


def test_an_npy_file_that_cannot_be_answered(service: Service) -> None:
    assert_problem(post(service, np.array([[0.0, 1.0], [np.nan, 1.0]]), accept="*/*"), 422, "row 1", "'a'")
    assert_problem(post(service, np.zeros((2, 3)), accept="*/*"), 422, "row 0", "expected 2 cells", "got 3")
    assert_problem(post(service, np.zeros(3), accept="*/*"), 422, "shape (3,)")
    assert_problem(post(service, np.array([["x"]]), accept="*/*"), 422, "rows of numbers")
    headers = {"content-type": NPY}
    for body in (b"\x93NUMPY", b"\x93NUMPY\x01\x00", b"\x93NUMPY\x01\x00\xff\xff{}", b"\x93NUMPY\x01\x00\x02\x00{}"):
        assert_problem(service.client.post("/predict?model=numbers", content=body, headers=headers), 400, "npy")


def test_bytes_that_are_not_the_npy_file_they_are_called(service: Service) -> None:
    """What the content type says is not read as a table; what a header claims is neither believed nor allocated."""
    good, headers = saved(np.ones((2, 2))), {"content-type": NPY}
    bad = {
        b"": "no npy file",
        b"a,b\n1,2\n": "no npy file",
        good + b"more": "takes 32 bytes, there are 36",
        good[:-1]: "takes 32 bytes, there are 31",
        good.replace(b"(2, 2)", b"(9, 9)"): "takes 648 bytes, there are 32",
        good.replace(b"'<f8'", b"1+1  "): "header is damaged",
        saved(np.array([[1, None]], dtype=object), objects=True): "holds objects",
    }
    for body, words in bad.items():
        answer = service.client.post("/predict?model=numbers", content=body, headers=headers)
        assert_problem(answer, 400, words)
        assert "0x" not in answer.text
    for shape in ((0, 0), (0, 3)):
        assert_problem(post(service, np.empty(shape), accept="*/*"), 422, "expected 2 columns", str(shape))
    assert read(post(service, np.empty((0, 2)))).shape == (0, 4)


def test_the_mean_alone(service: Service) -> None:
    expected = service.ask("numbers", ROWS.tolist())
    found = service.ask("numbers", ROWS.tolist(), interval=False)
    assert found == {"model": "numbers", "version": 1, "mean": expected["mean"]}
    assert read(post(service, ROWS, "&interval=false"))[:, 0].tolist() == expected["mean"]
    body = {"model": "numbers", "rows": [[0, 0]], "interval": False, "include": ["median"]}
    assert_problem(service.client.post("/predict", json=body), 422, "the mean alone", "`include`")
    body = {"model": "numbers", "rows": [[0, 0]], "interval": True}
    assert_problem(service.client.post("/predict", json=body), 422, "interval", "got true")


@pytest.mark.parametrize("transform", ["log", "yeo-johnson"])
def test_the_mean_alone_of_a_transformed_target(empty: Service, transform: str) -> None:
    table = curve(60, even, bend=lambda y: 2.0 + y)
    empty.train(table, model="m", target_transform=transform, **QUICK)
    rows = [[0.5], [3.0], [40.0]]
    assert empty.ask("m", rows, interval=False)["mean"] == empty.ask("m", rows)["mean"]


def test_rows_in_pieces(service: Service) -> None:
    rows = np.random.default_rng(7).uniform(-1.0, 1.0, (4 * PIECE_BYTES // 40, 2)).tolist()
    expected = service.ask("numbers", rows)
    objects = [{"b": b, "a": a, "note": "]},{["} for a, b in rows]
    assert len(json.dumps(objects)) > 4 * PIECE_BYTES
    assert service.ask("numbers", objects) == expected
    spaced = json.dumps({"model": "numbers", "rows": [[a, b] for a, b in rows]}, indent=1)
    answer = service.client.post("/predict", content=spaced, headers=JSON_BODY)
    assert answer.json() == expected
    objects[-1]["a"] = "x"
    answer = service.client.post("/predict", json={"model": "numbers", "rows": objects})
    assert_problem(answer, 422, f"row {len(rows) - 1:,}", "'a'", "'x'")
