"""`pursuit predict` against a server that says what it is: what is sent, and where the answer goes."""

import json
from pathlib import Path

import pytest

from tests.app.cli.run import pursuit
from tests.app.cli.stub import Answer, job, stub


@pytest.mark.parametrize(
    ("words", "type", "query"),
    [
        (("--format", "parquet"), "application/vnd.apache.parquet", ""),
        (("--output", "out.arrow"), "application/vnd.apache.arrow.stream", ""),
        (("--output", "out.txt", "--keep", "all"), "text/csv", "&keep=all"),
        (("--format", "npy", "--output", "out.csv", "--on-error", "null"), "application/x-npy", "&on_error=null"),
    ],
)
def test_predictions_in_other_forms(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], type: str, query: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with stub({("POST", "/predict"): [Answer(body=b"\x00bytes", type=type)]}) as server:
        result = pursuit("predict", "cars", table, *words, url=server.url)
        (sent,) = server.requests
    assert result.exit_code == 0, result.stderr
    assert sent[1] == f"/predict?model=cars{query}"
    written = result.stdout_bytes if "--output" not in words else Path(words[words.index("--output") + 1]).read_bytes()
    assert written == b"\x00bytes"


def test_predictions_of_a_dataset_are_a_job_and_a_file(tmp_path: Path) -> None:
    dataset, out = f"ds_{'0' * 32}", tmp_path / "out.parquet"
    warning = {"kind": "failed", "message": "1 row has no prediction", "count": 1, "rows": [3]}
    ended = job("succeeded", kind="predict", result={"model": "cars", "version": 1, "warnings": [warning]})
    answers = {
        ("POST", "/predict"): [Answer(status=202, body=ended)],
        ("GET", "/jobs/job_1"): [Answer(body=ended)],
        ("GET", "/jobs/job_1/predictions"): [Answer(body=b"PAR1", type="application/vnd.apache.parquet")],
    }
    with stub(answers) as server:
        result = pursuit("predict", "cars@2", dataset, "--keep", "all", "--output", out, url=server.url)
        document = pursuit("predict", "cars@2", dataset, "--output", out, "--json", url=server.url)
        sent, _ = server.bodies("POST", "/predict")
    assert result.exit_code == 0, result.stderr
    assert json.loads(sent) == {"model": "cars@2", "dataset": dataset, "keep": "all"}
    assert out.read_bytes() == b"PAR1"
    assert "note: 1 row has no prediction" in result.stderr
    told = {"model": "cars@1", "warnings": ["1 row has no prediction"], "output": str(out), "size_bytes": 4}
    assert json.loads(document.stdout) == told


def test_predictions_of_a_dataset_are_kept_for_their_truth(tmp_path: Path) -> None:
    dataset, out, prediction = f"ds_{'0' * 32}", tmp_path / "out.parquet", f"pred_{'0' * 32}"
    result: dict[str, object] = {"model": "cars", "version": 1, "warnings": []}
    kept = job("succeeded", kind="predict", result=result | {"prediction_id": prediction})
    by_earlier_worker = job("succeeded", kind="predict", result=result)
    answers = {
        ("POST", "/predict"): [Answer(status=202, body=kept), Answer(status=202, body=by_earlier_worker)],
        ("GET", "/jobs/job_1"): [Answer(body=kept), Answer(body=by_earlier_worker)],
        ("GET", "/jobs/job_1/predictions"): [Answer(body=b"PAR1", type="application/vnd.apache.parquet")],
    }
    words = ("predict", "cars", dataset, "--keep-for-feedback", "--output", out, "--json")
    with stub(answers) as server:
        one, two = (pursuit(*words, url=server.url) for _ in range(2))
        sent = json.loads(server.bodies("POST", "/predict")[0])
    assert sent["keep_for_feedback"] is True
    assert json.loads(one.stdout)["prediction_id"] == prediction
    assert f"pursuit feedback {prediction} FILE" in one.stderr
    assert json.loads(two.stdout)["prediction_id"] is None
    assert "did not keep the predictions" in two.stderr


def test_predictions_of_nothing(tmp_path: Path) -> None:
    for words, said in (
        ((tmp_path / "none.csv",), "does not exist"),
        ((tmp_path / "none.csv", "--format", "xls"), "expected one of csv, parquet"),
        ((tmp_path / "none.csv", "--output", tmp_path / "out.xlsx"), "predictions are not written as .xlsx"),
        ((f"ds_{'0' * 32}", "--format", "csv"), "a Parquet file: expected parquet, got csv"),
        ((f"ds_{'0' * 32}", "--output", tmp_path / "out.csv"), "Parquet"),
    ):
        result = pursuit("predict", "cars", *words, url="http://127.0.0.1:1")
        assert result.exit_code == 2
        assert said in " ".join(result.stderr.replace("│", " ").split())  # a long path breaks the line in its frame


def test_predict_writes_the_servers_csv(table: Path, tmp_path: Path) -> None:
    csv = Answer(body=b"mean,std\n1.5,0.25\n", type="text/csv")
    with stub({("POST", "/predict"): [csv]}) as server:
        shown = pursuit("predict", "cars@3", table, "--interval", "0.5", url=server.url)
        kept = pursuit("predict", "cars", table, "--output", tmp_path / "out.csv", url=server.url)
        first, second = server.requests
    assert (shown.exit_code, kept.exit_code) == (0, 0)
    assert shown.stdout == "mean,std\n1.5,0.25\n"
    assert (tmp_path / "out.csv").read_bytes() == b"mean,std\n1.5,0.25\n"
    assert first == ("POST", "/predict?model=cars%403&interval=0.5", table.read_bytes())
    assert second[1] == "/predict?model=cars"  # a model that keeps its mean alone refuses an interval


@pytest.mark.parametrize(
    ("words", "query"),
    [
        (("--interval", "0.5", "--interval", "0.95"), "interval=0.5&interval=0.95"),
        (("--interval", "0.5,0.95"), "interval=0.5&interval=0.95"),
        (("--interval", "0.5, 0.8", "--interval=.95"), "interval=0.5&interval=0.8&interval=0.95"),
        (("--quantile", "0.1", "--quantile", "0.9"), "quantiles=0.1&quantiles=0.9"),
        (("--aggregate", "sum"), "aggregate=sum"),
        (("--aggregate", "sum", "--over", "both"), "aggregate=sum&over=both"),
        (("--samples", "5", "--seed", "2"), "samples=5&seed=2"),
        (("--quantile", "1e-3,0.9", "--interval", "0.8"), "interval=0.8&quantiles=0.001&quantiles=0.9"),
        (
            ("--include", "median,support", "--include", "latent_std"),
            "include=median&include=support&include=latent_std",
        ),
    ],
)
def test_predict_asks_for_several_intervals_and_quantiles(table: Path, words: tuple[str, ...], query: str) -> None:
    csv = Answer(body=b"mean\n1.5\n", type="text/csv")
    with stub({("POST", "/predict"): [csv]}) as server:
        result = pursuit("predict", "cars", table, *words, url=server.url)
        (asked,) = server.requests
    assert result.exit_code == 0, result.output
    assert asked[1] == f"/predict?model=cars&{query}"


def test_a_wrong_interval_says_what_was_expected(table: Path) -> None:
    result = pursuit("predict", "cars", table, "--interval", "0.5,90%")
    assert result.exit_code == 2
    for words in ("--interval", "expected a number like 0.9", "'90%'"):
        assert words in result.stderr
