"""The client: trainings, models and jobs of a real server; patience, keys and refusals of one with fixed answers."""

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pandas as pd
import pytest
from pursuit import (
    AccessError,
    AsyncClient,
    Client,
    ConflictError,
    InvalidError,
    JobError,
    NotFoundError,
    PursuitError,
    RefusalError,
    SparseGPRegressor,
    UnavailableError,
    load,
)
from sklearn.pipeline import make_pipeline

from tests.app.cli.stub import Answer, events, job, problem, stub
from tests.app.library.conftest import table, url
from tests.app.routes.keys import create
from tests.app.routes.service import QUICK, Service, running
from tests.processes import wait_until

ROWS = [{"a": float(number), "kind": "odd" if number % 2 else "even", "y": number**1.5} for number in range(40)]
NEWS = [row | {"y": float(str(row["y"])) + 0.25} for row in ROWS[:2]]
QUEUED = Answer(body=job("queued"), status=202)


def test_a_frame_is_trained_on_without_its_index(client: Client) -> None:
    job = client.train(table(), target="y", model="cars", **QUICK)
    assert (job.state, job.report) == ("queued", None)
    model = job.wait()
    assert (job.state, model.reference, model.name) == ("succeeded", "cars@1", "cars")
    assert [(column["name"], column["kind"]) for column in model.report["columns"]] == [
        ("x", "number"),
        ("kind", "category"),
        ("day", "date"),
    ]
    assert job.report == model.report
    assert repr(client.job(job.id)) == f"Job({job.id!r}, 'cars', succeeded, 100%)"


def test_files_and_lists_of_dicts_are_trained_on(idle: Service, tmp_path: Path) -> None:
    path = tmp_path / "boats.csv"
    table().to_csv(path, index=False)
    with Client(url(idle)) as client:
        for job, name in ((client.train(path, effort="quick"), "boats"), (client.train(ROWS, "y"), "model")):
            assert (job.cancel().state, job.document["model"]) == ("cancelled", name)
        with pytest.raises(InvalidError, match="there is no column 'z'; there are 'a', 'kind', 'y'"):
            client.train(ROWS, "z")
        with pytest.raises(TypeError, match="an array has no names of columns"):
            client.train(np.ones((3, 2)))
        with pytest.raises(TypeError, match="expected a list of dicts"):
            client.train([[1, 2]])
        with pytest.raises(PursuitError, match=r"cannot read nowhere\.csv: "):
            client.train("nowhere.csv")


def test_refusals_of_a_table_print_its_cells_and_those_of_the_specification_its_field(client: Client) -> None:
    frame = table().astype({"x": object})
    frame["x"] = frame["x"].astype(str)
    frame.iloc[17, 0] = "fast"
    with pytest.raises(InvalidError, match=r"  row 17, column 'x', value 'fast': ") as caught:
        client.train(frame, "y")
    assert (caught.value.status, caught.value.total) == (422, 1)
    with pytest.raises(InvalidError, match="did you mean basis_size"):
        client.train(ROWS, "y", basis_sise=3)
    with pytest.raises(InvalidError, match="there is no column 'kinf'"):
        client.train(ROWS, "kinf")


def test_models_are_listed_promoted_and_deleted(client: Client) -> None:
    inputs = np.linspace(0, 6, 30)[:, None]
    artefact = SparseGPRegressor(**QUICK).fit(inputs, np.sin(inputs[:, 0])).artefact_
    for expected in (1, 2):
        assert client.push(artefact, "bikes").reference == f"bikes@{expected}"
    (listed,) = [model for model in client.models() if model["name"] == "bikes"]
    assert listed["versions"] == 2
    first, second = client.model("bikes@1"), client.model("bikes")
    assert client.resolve("bikes") == ("bikes", 2)
    first.promote()
    assert client.resolve("bikes") == client.resolve("bikes@champion") == ("bikes", 1)
    assert second.details()["version"] == 1  # it is the name, which now means another version
    with pytest.raises(ConflictError, match="champion"):
        first.delete()
    client.remove_alias("bikes", "champion")
    first.delete()
    with pytest.raises(NotFoundError):
        client.model("bikes@1")
    with pytest.raises(LookupError, match=r"model 'bikes' has no alias 'champion'; it has latest"):
        client.model("bikes@champion")
    client.promote("bikes@2", "tested")
    client.delete("bikes", force=True)
    with pytest.raises(NotFoundError, match="bikes"):
        client.model("bikes")


def test_fitted_estimators_and_artefacts_are_pushed(client: Client, tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": np.linspace(0, 6, 40), "b": np.arange(40) % 3.0})
    estimator = SparseGPRegressor(**QUICK).fit(frame, pd.Series(np.sin(frame["a"]) + frame["b"], name="y"))
    model = client.push(estimator, "pushed")
    assert model.reference == "pushed@1"
    mean, std = estimator.predict(frame, return_std=True)
    predicted = model.predict(frame[["b", "a"]])
    np.testing.assert_array_equal(predicted["mean"], mean)
    np.testing.assert_array_equal(predicted["std"], std)
    details = model.details()
    assert (details["target"], details["report"]["rows"]) == ("y", 40)
    for form in ("onnx", "zip"):  # of the server, of the estimator and of the file, with names of their own
        sizes = [
            one.export(tmp_path / f"m.{form}").stat().st_size for one in (model, estimator, load(estimator.artefact_))
        ]
        assert max(sizes) - min(sizes) < 100
    session = onnxruntime.InferenceSession(model.export(tmp_path / "m.onnx", interval=0.5))
    feeds = {name: frame[[name]].to_numpy() for name in ("a", "b")}
    lower, upper = session.run(["lower", "upper"], feeds)
    expected = model.predict(frame, interval=0.5)
    np.testing.assert_allclose(np.hstack([lower, upper]), expected[["lower", "upper"]], atol=1e-9)
    with pytest.raises(ValueError, match=r"the name 'm.txt' says none"):
        model.export(tmp_path / "m.txt")
    with pytest.raises(InvalidError, match="format"):
        model.export(tmp_path / "m.txt", form="pmml")
    path = model.save(tmp_path / "pushed.safetensors")
    assert [client.push(found, "pushed").reference for found in (path, path.read_bytes(), load(path))] == [
        "pushed@2",
        "pushed@3",
        "pushed@4",
    ]
    with pytest.raises(InvalidError):
        client.push(b"no model", "pushed")
    with pytest.raises(TypeError, match="of a Pipeline push the last step"):
        client.push(make_pipeline(estimator), "pushed")


def test_jobs_are_listed_cancelled_and_not_waited_for(idle: Service) -> None:
    with Client(url(idle)) as client:
        job = client.train(ROWS, "y", model="cars")
        assert [found.id for found in client.jobs(state="queued", model="cars")] == [job.id]
        assert client.jobs(state="running") == []
        assert job.cancel().state == "cancelled"
        with pytest.raises(JobError, match=f"{job.id} cancelled"):
            job.wait()
        again = client.train(ROWS, "y", model="cars", idempotency_key="mine")
        assert client.train(ROWS, "y", model="cars", idempotency_key="mine").id == again.id
        with pytest.raises(NotFoundError):
            client.job("job_none")


def test_pages_are_followed() -> None:
    pages = [{"models": [{"name": name, "latest": 1, "versions": 1, "created_at": ""}]} for name in "ab"]
    answers = [Answer(body=pages[0] | {"next_cursor": "a"}), Answer(body=pages[1] | {"next_cursor": None})]
    with stub({("GET", "/models"): answers}) as server, Client(server.url) as client:
        assert [model["name"] for model in client.models()] == ["a", "b"]
    assert "cursor=a" in server.requests[1][1]


def test_a_training_that_is_sent_again_is_the_same_training() -> None:
    busy = problem(503, "the queue is full")
    busy.headers["retry-after"] = "0"
    answers = {("POST", "/train"): [busy, Answer(body=b"", status=502, type="text/html"), QUEUED]}
    with stub(answers) as server, Client(server.url) as client:
        assert client.train(table(), "y").state == "queued"
    keys = {headers["idempotency-key"] for headers in server.headers}
    assert (len(server.requests), len(keys)) == (3, 1)
    assert len({len(body) for _, _, body in server.requests}) == 1  # all of it, each time


@pytest.mark.parametrize(("seconds", "requests"), [("0", 12), ("3600", 1)])
def test_patience_has_an_end(seconds: str, requests: int) -> None:
    busy = problem(503, "all table readers are full")
    busy.headers["retry-after"] = seconds
    with stub({("GET", "/models"): [busy]}) as server, Client(server.url) as client:
        with pytest.raises(UnavailableError, match="all table readers are full"):
            client.models()
        assert len(server.requests) == requests


def test_what_may_have_been_done_is_not_sent_again() -> None:
    lost = Answer(body={}, cut=True)
    with stub({("POST", "/models/cars/versions"): [lost]}) as server, Client(server.url) as client:
        with pytest.raises(PursuitError, match="peer closed connection"):
            client.push(b"artefact", "cars")
        assert len(server.requests) == 1


def test_what_may_be_done_twice_is_sent_again_where_the_connection_broke() -> None:
    answers = {("GET", "/models"): [Answer(body={}, cut=True), Answer(body={"models": []})]}
    with stub(answers) as server, Client(server.url) as client:
        assert client.models() == []


def test_without_patience_a_server_that_is_away_is_told_at_once() -> None:
    with Client("127.0.0.1:9", patience=0) as client, pytest.raises(PursuitError, match="no answer from http://127"):
        client.models()


def test_a_key_is_sent_and_its_refusal_is_an_error_of_its_own() -> None:
    answers = {("GET", "/models"): [problem(401, "this server asks for a key")]}
    with stub(answers) as server, Client(server.url, key="pk_secret") as client:
        with pytest.raises(AccessError, match="asks for a key"):
            client.models()
        assert "pk_secret" not in repr(client)
    assert server.headers[0]["authorization"] == "Bearer pk_secret"


def test_a_server_with_keys_lets_a_key_do_what_it_is_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with running(tmp_path) as service:
        key = create(service, "predict")["Authorization"].removeprefix("Bearer ")
        wait_until(lambda: service.client.get("/models").status_code == 401)
        with Client(url(service)) as stranger, pytest.raises(AccessError) as caught:
            stranger.models()
        assert caught.value.status == 401
        monkeypatch.setenv("PURSUIT_API_KEY", key)
        with Client(url(service)) as client:
            with pytest.raises(NotFoundError, match="cars"):
                client.predict("cars", ROWS)
            with pytest.raises(AccessError, match="train") as caught:
                client.train(ROWS, "y")
        assert caught.value.status == 403


def test_the_servers_url_may_be_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PURSUIT_URL", "http://example.org:81")
    assert repr(Client()) == "Client('http://example.org:81')"
    monkeypatch.delenv("PURSUIT_URL")
    assert repr(Client()) == "Client('http://127.0.0.1:8000')"
    with pytest.raises(PursuitError, match="is not the URL of a server"):
        Client("http://")


def test_progress_is_shown_in_lines_where_it_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    selecting = {"fraction": 0.25, "phase": "selecting"}
    done = job("succeeded", result={"model": "cars", "version": 3, "report": {}})
    answers = {
        ("GET", "/jobs/job_1"): [Answer(body=job("queued"))],
        ("GET", "/jobs/job_1/events"): [events(job("running", progress=selecting), done)],
    }
    with stub(answers) as server, Client(server.url) as client:
        assert client.job("job_1").wait().reference == "cars@3"
        assert capsys.readouterr().out == ""
        client.job("job_1").wait(progress=True)
    assert "25%  selecting" in capsys.readouterr().out


def test_a_failed_training_says_why() -> None:
    failed = job("failed", error={"type": "NumericalError", "message": "the arithmetic broke down"})
    with stub({("GET", "/jobs/job_1"): [Answer(body=failed)]}) as server, Client(server.url) as client:
        with pytest.raises(JobError, match="job_1 failed: the arithmetic broke down") as caught:
            client.job("job_1").wait()
        assert caught.value.job["error"]["type"] == "NumericalError"


def test_a_status_without_a_class_of_its_own() -> None:
    with stub({("GET", "/jobs/a"): [problem(500, "the server failed")]}) as server, Client(server.url) as client:
        with pytest.raises(RefusalError, match="the server failed") as caught:
            client.job("a")
        assert caught.value.status == 500


def model_bytes(service: Service, name: str, form: str) -> bytes:
    return service.client.get(f"/models/{name}/versions/1/artefact", params={"format": form}).content


def test_rows_join_a_model(client: Client, tmp_path: Path) -> None:
    """Lists, frames and files; the job's model is the next version."""
    client.train(ROWS, "y", model="joined", **QUICK).wait()
    path = tmp_path / "more.csv"
    pd.DataFrame(ROWS[:2]).to_csv(path, index=False)
    for number, data in enumerate((ROWS[:3], pd.DataFrame(ROWS[3:5]), path), start=2):
        job = client.update("joined", data, forget=[number])
        assert job.wait().reference == f"joined@{number}"
        assert job.report is not None
        assert job.report["update"]["rows_forgotten"] == 1
    updated = client.model("joined@4").update(NEWS[:1], extra_basis=1).wait()
    assert (updated.reference, updated.report["update"]["from"]) == ("joined@5", 4)
    with pytest.raises(InvalidError, match="no column 'y'"):
        client.update("joined", [{"a": 1.0, "kind": "odd"}])


def test_datasets_grow_and_trainings_begin_at_a_model(client: Client) -> None:
    first = client.upload(ROWS[:30], target="y")
    both = first.append(pd.DataFrame(ROWS[30:]))
    assert (both.document["rows"], client.dataset(first.id).document["rows"]) == (40, 30)
    with pytest.raises(InvalidError, match="no column 'y'"):
        first.append([{"a": 1.0, "kind": "odd"}])
    client.train(first, "y", model="grown", **QUICK).wait()
    later = client.train(both, "y", model="grown", from_model="grown@1", **QUICK).wait()
    assert (later.report["from"], later.report["rows"]) == ("grown@1", 40)
    assert client.train(ROWS, "y", model="grown", from_model="grown", **QUICK).wait().report["from"] == "grown@2"
    with pytest.raises(NotFoundError):
        client.train(ROWS, "y", from_model="nothing@1")


def test_the_same_awaited(service: Service, tmp_path: Path) -> None:
    async def use() -> None:
        async with AsyncClient(url(service)) as client:
            job = await client.train(ROWS, "y", model="trains", **QUICK)
            model = await job.wait()
            assert (job.state, model.reference, job.progress["fraction"]) == ("succeeded", "trains@1", 1.0)
            assert (await model.details())["report"] == job.report
            frames = [pd.DataFrame(ROWS[:rows], index=range(5, 5 + rows)) for rows in (1, 5, 9)]
            found = await asyncio.gather(*(model.predict(frame) for frame in frames))
            for frame, predicted in zip(frames, found, strict=True):
                pd.testing.assert_index_equal(predicted.index, frame.index)
            total, draws = await model.total(frames[2]), await model.sample(frames[2], 3)
            assert total["mean"] == pytest.approx(found[2]["mean"].sum())
            assert draws.shape == (3, 9)
            path = await model.save(tmp_path / "trains.safetensors")
            assert path.read_bytes() == await client.artefact("trains")
            exported = await model.export(tmp_path / "trains.zip")
            assert exported.read_bytes() == (await asyncio.to_thread(model_bytes, service, "trains", "numpy"))
            await client.promote("trains@1", "tested")
            with pytest.raises(ConflictError):
                await client.delete("trains@1")
            await client.remove_alias("trains", "tested")
            assert "trains" in [item["name"] for item in await client.models()]
            assert [item.id for item in await client.jobs(model="trains")] == [job.id]
            with pytest.raises(InvalidError, match="row 0, column 'kind', value 'neither'"):
                await client.predict("trains", [{"a": 1, "kind": "neither"}])
            explained = await model.explain(ROWS[:2], nearest=3)
            assert explained.rows == (await client.explain(model.reference, ROWS[:2], nearest=3)).rows
            assert [len(row["nearest"]) for row in explained.rows] == [3, 3]
            assert (await (await model.update(NEWS)).wait()).reference == "trains@2"
            assert (await (await client.update("trains", ROWS[:2], forget=[0])).wait()).reference == "trains@3"
            await (await client.model("trains")).delete()

    asyncio.run(use())


def test_a_task_that_waits_can_be_cancelled_and_the_job_after_it(idle: Service) -> None:
    async def use() -> None:
        async with AsyncClient(url(idle)) as client:
            job: Any = await client.train(ROWS, "y", model="trains")
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.3):
                    await job.wait()
            assert (await (await client.job(job.id)).refresh()).state == "queued"
            assert (await job.cancel()).state == "cancelled"
            with pytest.raises(JobError, match="cancelled"):
                await job.wait()

    asyncio.run(use())
