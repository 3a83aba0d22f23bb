"""The HTTP client: the server's words, broken streams, servers that are not there."""

import socket
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest

from app.cli.client import Client, ClientError, ProblemError, UnreachableError
from app.cli.connection import patience
from tests.app.cli.stub import Answer, events, job, problem, stub
from tests.ports import free_port


def test_a_refusal_carries_the_servers_sentence_and_places() -> None:
    fault = {"row": 1, "line": 3, "column": "x", "value": "?", "message": "not a number"}
    answer = problem(422, "2 cells are wrong", errors=[fault], error_count=2)
    with (
        stub({("GET", "/jobs/a"): [answer]}) as server,
        Client(server.url) as client,
        pytest.raises(ProblemError, match="2 cells are wrong") as caught,
    ):
        client.job("a")
    assert (caught.value.status, caught.value.faults, caught.value.total) == (422, [fault], 2)


def test_an_error_that_is_no_problem_document_is_still_reported() -> None:
    answer = Answer(body=b"<html>", status=502, type="text/html")
    with (
        stub({("GET", "/models"): [answer]}) as server,
        Client(server.url) as client,
        pytest.raises(ProblemError, match="502 Bad Gateway"),
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


@pytest.mark.parametrize(
    "url",
    ["http://[", "ftp://h", "http://", "http://h:99999", "http://h:0", "http://h?x=1", "http://h/#docs", "h h", ""],
)
def test_not_a_url(url: str) -> None:
    with pytest.raises(ClientError, match=r"is not the URL of a server; expected one like http://127\.0\.0\.1:8000"):
        Client(url)


@pytest.mark.parametrize("written", ["{}", "{}/", " {} ", "http://{}", "http://{}//", "http://{}/docs"])
def test_a_url_may_come_without_its_scheme(written: str) -> None:
    with stub({("GET", "/models"): [Answer(body={"models": []})]}) as server:
        host = server.url.removeprefix("http://")
        with Client(written.format(host)) as client:
            assert (client.url, client.models()) == (server.url, {"models": []})


STRANGERS = [
    Answer(body=b"<html>hello</html>", type="text/html"),
    Answer(body=[]),
    Answer(body={}),
    Answer(body={"models": {}, "jobs": {}}),
    Answer(body={"models": [{"modelName": "m"}], "jobs": [1]}),  # TorchServe's
    Answer(body={"error": "no", "errors": ["no"], "error_count": "many"}, status=500),
    Answer(body=[1], status=500, type="application/problem+json"),
    Answer(body={"detail": None, "errors": "no", "error_count": None}, status=400, type="application/problem+json"),
    Answer(body=b"<html>no</html>", status=404, type="text/html"),
    Answer(body=b"", status=301, location="https://elsewhere.example/"),
]


@pytest.mark.parametrize("answer", STRANGERS)
def test_a_server_of_something_else(answer: Answer, tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    table.write_text("x,y\n1,2\n")
    paths = ("models", "jobs", "models/a", "models/a/versions/1", "jobs/a")
    answers = {("GET", f"/{path}"): [answer] for path in paths}
    answers |= {("POST", "/train"): [answer], ("POST", "/predict"): [answer], ("DELETE", "/jobs/a"): [answer]}
    with stub(answers) as server, Client(server.url) as client:
        for ask in (
            client.models,
            client.jobs,
            lambda: client.model("a"),
            lambda: client.version("a@1"),
            lambda: client.version("a@best"),
            lambda: client.job("a"),
            lambda: next(client.follow("a")),
            lambda: client.cancel("a"),
            lambda: client.train(table, {}),
            lambda: client.predict("a", b"x\n1\n", accept="text/csv"),
        ):
            with pytest.raises(ClientError) as caught:
                ask()
            said = str(caught.value)
            assert server.url in said or said == "no reason was given"
            assert isinstance(caught.value, ProblemError) == (answer.status >= 400)
            assert "elsewhere.example" in said or answer.status != 301


def test_what_listens_there_speaks_no_http() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=_greet, args=(listener,))
        thread.start()
        url = f"127.0.0.1:{listener.getsockname()[1]}"
        with Client(url) as client, pytest.raises(ClientError, match=f"http://{url} does not answer as an HTTP server"):
            client.models()
        thread.join()


def _greet(listener: socket.socket) -> None:
    connection, _ = listener.accept()
    with connection:
        connection.sendall(b"SSH-2.0-OpenSSH_9.2\r\n")
        connection.recv(65536)


def test_follow_waits_for_a_server_that_starts_again() -> None:
    answers = {
        ("GET", "/jobs/job_1"): [
            Answer(body=job("queued")),
            Answer(body=b"", status=502, type="text/html"),
            problem(503, "the database is away"),
            Answer(body=job("succeeded")),
        ],
        ("GET", "/jobs/job_1/events"): [events(cut=True)],
    }
    with stub(answers) as server, Client(server.url) as client:
        assert [item["state"] for item in client.follow("job_1")] == ["queued", "succeeded"]


def test_follow_ends_where_the_job_is_gone() -> None:
    answers = {
        ("GET", "/jobs/job_1"): [Answer(body=job("queued")), problem(404, "there is no job 'job_1'")],
        ("GET", "/jobs/job_1/events"): [events(cut=True)],
    }
    with stub(answers) as server, Client(server.url) as client, pytest.raises(ProblemError, match="there is no job"):
        list(client.follow("job_1"))


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with Client("127.0.0.1:9") as client:
        for place in (tmp_path, tmp_path / "missing.csv"):
            with pytest.raises(ClientError, match=f"cannot read {place}: "):
                client.train(place, {})


def test_a_server_that_starts_is_waited_for_and_that_is_told(tmp_path: Path) -> None:
    port, told = free_port(), list[str]()
    table = tmp_path / "t.csv"
    table.write_text("x,y\n1,2\n")
    answers = {("POST", "/train"): [Answer(body=job("queued"), status=202)]}
    with ExitStack() as stack:
        timer = threading.Timer(0.6, lambda: stack.enter_context(stub(answers, port=port)))
        timer.start()
        with Client(f"http://127.0.0.1:{port}", patience=10.0, tell=told.append) as client:
            assert client.train(table, {})["id"] == "job_1"  # refused connections did nothing: it may be sent again
        timer.join()
    assert len(told) == 1
    assert "no answer from http://127.0.0.1" in told[0]
    assert "trying again for up to 10 s" in told[0]


def test_follow_outlives_a_server_that_is_away_for_longer_than_its_tries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.cli.client._MAX_RETRY_SECONDS", 0.02)
    away = [Answer(body=b"", cut=True)] * 6 + [problem(503, "the server is stopping")] * 14
    answers = {
        ("GET", "/jobs/job_1"): [Answer(body=job("queued")), *away, Answer(body=job("succeeded"))],
        ("GET", "/jobs/job_1/events"): [events()],
    }
    told = list[str]()
    with stub(answers) as server, Client(server.url, tell=told.append) as client:
        assert [item["state"] for item in client.follow("job_1")] == ["queued", "succeeded"]
    assert len(told) == 1
    assert "the job goes on" in told[0]


@pytest.mark.parametrize("call", ["model", "version"])
def test_a_name_with_a_slash_is_refused_here(call: str) -> None:
    with Client("http://127.0.0.1:9") as client, pytest.raises(ClientError, match=r"expected letters.*got 'a/b'"):
        getattr(client, call)("a/b@1" if call == "version" else "a/b")


def test_what_is_damaged_is_not_asked_for_again() -> None:
    told: list[str] = []
    damaged = problem(503, "m@1 cannot be loaded: the stored file is damaged", type="/problems/damaged-file")
    with stub({("GET", "/models/m"): [damaged]}) as server:
        with (
            Client(server.url, patience=9.0, tell=told.append) as client,
            pytest.raises(ProblemError, match="is damaged"),
        ):
            client.model("m")
        assert len(server.headers) == 1
    assert told == []


@pytest.mark.parametrize(("text", "seconds"), [("", 10.0), ("0", 0.0), ("2.5", 2.5)])
def test_patience_of_commands(monkeypatch: pytest.MonkeyPatch, text: str, seconds: float) -> None:
    monkeypatch.setenv("PURSUIT_PATIENCE", text)
    assert patience() == seconds


@pytest.mark.parametrize("text", ["soon", "-1", "inf", "nan"])
def test_patience_that_is_none(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("PURSUIT_PATIENCE", text)
    with pytest.raises(ClientError, match="PURSUIT_PATIENCE"):
        patience()
