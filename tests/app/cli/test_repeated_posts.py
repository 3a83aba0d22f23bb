"""Requests whose answer is lost: sent again under their key where the server does them once, and else not."""

import io
import json
from collections.abc import Callable
from typing import Any

import pytest

from app.cli.client import BrokenConnectionError, Client
from app.cli.client_errors import NotFiniteError
from tests.app.cli.stub import Answer, job, stub

DATASET = f"ds_{'0' * 32}"
KEPT = {"id": DATASET, "rows": 1, "columns": [], "warnings": []}
ONCE: dict[str, tuple[str, Any, Callable[[Client], Any]]] = {
    "train": ("/train", job("queued"), lambda client: client.train_on("t.csv", table(), {})),
    "train a dataset": ("/train", job("queued"), lambda client: client.train_dataset(DATASET, {})),
    "update": ("/models/a/update", job("queued"), lambda client: client.update("a", "t.csv", table(), {})),
    "update by a dataset": (
        "/models/a/update",
        job("queued"),
        lambda client: client.update_by_dataset("a", DATASET, {}),
    ),
    "predict a dataset": ("/predict", job("queued"), lambda client: client.predict_dataset("a", DATASET, {})),
    "upload": ("/datasets", KEPT, lambda client: client.add_dataset("t.csv", table())),
    "register": ("/datasets", KEPT, lambda client: client.register_dataset("s3://bucket/rows/", target="y")),
    "append": (f"/datasets/{DATASET}/rows", KEPT, lambda client: client.append_dataset(DATASET, "t.csv", table())),
}


def table() -> io.BytesIO:
    return io.BytesIO(b"x,y\n1,2\n")


@pytest.mark.parametrize("what", ONCE)
def test_an_answer_that_is_lost_is_asked_for_again_under_the_same_key(what: str) -> None:
    path, answer, call = ONCE[what]
    with stub({("POST", path): [Answer(body=answer, cut=True), Answer(body=answer)]}) as server:
        with Client(server.url, patience=20.0) as client:
            assert call(client) == answer
            assert call(client) == answer
        lost, repeated, later = (headers["idempotency-key"] for headers in server.headers)
        bodies = [body.partition(b"\r\n\r\n")[2][:9] for _, _, body in server.requests]
    assert lost == repeated != later  # what is asked for anew has a key of its own
    assert bodies[0] == bodies[1]


@pytest.mark.parametrize(
    ("path", "call"),
    [
        ("/models/a/versions", lambda client: client.import_version("a", b"artefact")),
        ("/feedback", lambda client: client.feedback("pred_", [1.0])),
    ],
)
def test_what_has_no_key_is_sent_once(path: str, call: Callable[[Client], Any]) -> None:
    with stub({("POST", path): [Answer(body={}, cut=True), Answer(body={})]}) as server:
        with Client(server.url, patience=20.0) as client, pytest.raises(BrokenConnectionError):
            call(client)
        assert len(server.requests) == 1


@pytest.mark.parametrize("number", [float("nan"), float("inf"), json.loads("-1e999")])
@pytest.mark.parametrize(
    "call",
    [
        lambda client, number: client.train_on("t.csv", table(), {"noise": number}),
        lambda client, number: client.train_dataset(DATASET, {"noise": number}),
        lambda client, number: client.update("a", "t.csv", table(), {"extra_basis": number}),
        lambda client, number: client.suggest("a", {"ranges": {"x": [number, 1.0]}}),
        lambda client, number: client.feedback("pred_", [number]),
        lambda client, number: client.predict_dataset("a", DATASET, {"interval": number}),
    ],
)
def test_numbers_that_json_has_not_are_refused_here(call: Callable[[Client, float], Any], number: float) -> None:
    with Client("http://127.0.0.1:9") as client, pytest.raises(NotFiniteError, match="expected finite numbers: JSON"):
        call(client, number)
