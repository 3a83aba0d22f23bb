"""The HTTP client: the server's words, broken streams, servers that are not there."""

import socket
from pathlib import Path

import pytest

from app.cli.client import Client, ClientError, RefusedError, UnreachableError
from tests.app.cli.stub import Answer, events, job, problem, stub


def test_a_refusal_carries_the_servers_sentence_and_places() -> None:
    fault = {"row": 1, "line": 3, "column": "x", "value": "?", "message": "not a number"}
    answer = problem(422, "2 cells are wrong", errors=[fault], error_count=2)
    with (
        stub({("GET", "/jobs/a"): [answer]}) as server,
        Client(server.url) as client,
        pytest.raises(RefusedError, match="2 cells are wrong") as caught,
    ):
        client.job("a")
    assert (caught.value.status, caught.value.faults, caught.value.total) == (422, [fault], 2)


def test_an_error_that_is_no_problem_document_is_still_told() -> None:
    answer = Answer(body=b"<html>", status=502, type="text/html")
    with (
        stub({("GET", "/models"): [answer]}) as server,
        Client(server.url) as client,
        pytest.raises(RefusedError, match="502 Bad Gateway"),
    ):
        client.models()


@pytest.mark.parametrize("body", [b"<html>", b"[1]"])
def test_an_answer_that_is_no_object_is_not_from_this_service(body: bytes) -> None:
    with (
        stub({("GET", "/models"): [Answer(body=body)]}) as server,
        Client(server.url) as client,
        pytest.raises(ClientError, match="does not answer like a Pursuit server"),
    ):
        client.models()


def test_no_server() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, not listening: connections are refused
        with Client(f"http://127.0.0.1:{taken.getsockname()[1]}") as client:
            assert client.ready() is False
            with pytest.raises(UnreachableError, match="no answer from http://127"):
                client.models()


def test_a_proxy_of_the_environment_is_not_asked_about_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    with stub({("GET", "/models"): [Answer(body={"models": []})]}) as server, Client(server.url) as client:
        assert client.models() == {"models": []}


def test_train_sends_the_file_and_the_spec(tmp_path: Path) -> None:
    table = tmp_path / "cars.csv"
    table.write_text("x,y\n1,2\n")
    queued = Answer(body=job("queued"), status=202)
    with stub({("POST", "/train"): [queued]}) as server, Client(server.url) as client:
        assert client.train(table, {"target": "y"})["id"] == "job_1"
    (body,) = server.bodies("POST", "/train")
    assert b'name="file"; filename="cars.csv"' in body
    assert b"x,y\n1,2\n" in body
    assert b'{"target": "y"}' in body


def test_follow_reads_the_events_to_the_end() -> None:
    states = [job("running", progress={"fraction": 0.5}), job("succeeded")]
    answers = {("GET", "/jobs/job_1"): [Answer(body=job("queued"))], ("GET", "/jobs/job_1/events"): [events(*states)]}
    with stub(answers) as server, Client(server.url) as client:
        assert [item["state"] for item in client.follow("job_1")] == ["queued", "running", "succeeded"]


def test_follow_goes_on_after_a_broken_stream() -> None:
    answers = {
        ("GET", "/jobs/job_1"): [Answer(body=job("queued")), Answer(body=job("running"))],
        ("GET", "/jobs/job_1/events"): [events(job("running"), cut=True), events(), events(job("failed"))],
    }
    with stub(answers) as server, Client(server.url) as client:
        assert [item["state"] for item in client.follow("job_1")][-1] == "failed"
    assert len(server.bodies("GET", "/jobs/job_1")) == 3


def test_follow_gives_up_when_nothing_comes() -> None:
    answers = {
        ("GET", "/jobs/job_1"): [Answer(body=job("queued"))],
        ("GET", "/jobs/job_1/events"): [events(cut=True)],
    }
    with stub(answers) as server, Client(server.url) as client, pytest.raises(UnreachableError):
        list(client.follow("job_1"))


def test_not_a_url() -> None:
    with pytest.raises(ClientError, match="not a URL"):
        Client("http://[")
