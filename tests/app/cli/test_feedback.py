"""`pursuit feedback`, and the truth that it reads."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from app.cli.client_errors import ClientError
from app.cli.commands import cli
from app.cli.truth import read_truth
from tests.app.cli.stub import Answer, stub

PREDICTION = "pred_" + "0" * 32
COUNTS = {"model": "cars", "version": 3, "rows": 40, "covered": 38, "waiting": 2}
TOLD = {("POST", "/feedback"): [Answer(body=COUNTS)]}

VERSION = {
    ("GET", "/models/cars/versions/3"): [
        Answer(
            body={
                "model": "cars",
                "version": 3,
                "aliases": [],
                "created_at": "2026-01-01T00:00:00Z",
                "size_bytes": 1,
                "report": {},
                "targets": ["y"],
            }
        )
    ]
}
PREDICTED = {("POST", "/predict"): [Answer(body={"prediction_id": PREDICTION})]}


def pursuit(*words: str | Path, url: str = "http://127.0.0.1:9") -> Result:
    return CliRunner().invoke(cli, [str(word) for word in words], env={"PURSUIT_URL": url, "COLUMNS": "200"})


@pytest.mark.parametrize(
    ("text", "column", "found"),
    [
        ("y\n1\n\n-2.5e3\n", None, [1.0, None, -2500.0]),
        ("id;y\n1;2\n2;\n", "y", [2.0, None]),
        ('\ufeffy,"a, b"\n1,x\n\n2,"p\nq"\n', "y", [1.0, 2.0]),
        ("y\tid\n1\t2\n", "id", [2.0]),
        ("y\n", None, []),
    ],
)
def test_the_truth_of_a_file(text: str, column: str | None, found: list[float | None]) -> None:
    assert read_truth(text.encode(), [column] if column else []) == found


def test_the_truth_by_target() -> None:
    text = b"id,y1,y2\n7,1,\n8,,2\n"
    both = {"y1": [1.0, None], "y2": [None, 2.0]}
    assert read_truth(text, ["y1", "y2"]) == both
    assert read_truth(text, [], targets=["y2", "y1", "y3"]) == both
    assert read_truth(text, ["y2"], targets=["y1", "y2"]) == {"y2": both["y2"]}
    assert read_truth(text, [], target="y1") == {"y1": both["y1"]}
    assert read_truth(text, ["id"], target="y1") == {"y1": [7.0, 8.0]}
    assert read_truth(b"measured\n1\n", [], target="y1") == {"y1": [1.0]}
    with pytest.raises(ClientError, match="no column has the name of a target"):
        read_truth(text, [], targets=["y8", "y9"])
    with pytest.raises(ClientError, match="--column: there are id, y1, y2"):
        read_truth(text, [], target="y9")


@pytest.mark.parametrize(
    ("text", "column", "said"),
    [
        ("a,b\n1,2\n", None, "--column: there are a, b"),
        ("a,b\n1,2\n", "c", "no column 'c'"),
        ("a,a\n1,2\n", "a", "or several"),
        ("y\n1\nmuch\n", None, "line 3, column 'y': expected a number or nothing, got 'much'"),
        ("y\nnan\n", None, "got 'nan'"),
        ("a,y\n1,2\n1\n", "y", "line 3: expected 2 cells"),
        ("", None, "there are none"),
    ],
)
def test_a_file_without_the_truth(text: str, column: str | None, said: str) -> None:
    with pytest.raises(ClientError) as raised:
        read_truth(text.encode(), [column] if column else [])
    assert said in str(raised.value)
    with pytest.raises(ClientError, match="UTF-8"):
        read_truth(b"\xff\xfe", [])


def test_the_truth_is_told_by_the_id_of_a_prediction(tmp_path: Path) -> None:
    truth = tmp_path / "truth.csv"
    truth.write_text("id,mpg\n1,18\n2,\n")
    with stub(dict(TOLD)) as server:
        result = pursuit("feedback", PREDICTION, truth, "--column", "mpg", url=server.url)
        document = pursuit("feedback", PREDICTION, truth, "--column", "mpg", "--json", url=server.url)
        bodies = server.bodies("POST", "/feedback")
    assert result.output == "cars@3: 40 rows counted, 95.0% inside of their 95% interval; 2 rows wait for their truth\n"
    assert json.loads(document.stdout) == {"prediction_id": PREDICTION, **COUNTS}
    assert [json.loads(body) for body in bodies] == [{"prediction_id": PREDICTION, "truth": [18.0, None]}] * 2


def test_rows_with_their_truth_are_predicted_first(tmp_path: Path) -> None:
    table = tmp_path / "table.csv"
    table.write_text("x,y\n1,2\n")
    counts = COUNTS | {"covered": None, "waiting": 0}
    answers = {**VERSION, **PREDICTED, ("POST", "/feedback"): [Answer(body=counts)]}
    with stub(answers) as server:
        result = pursuit("feedback", "cars@3", table, "--column", "y", url=server.url)
        asked = [path for method, path, _ in server.requests if path.startswith("/predict")]
    assert result.stdout == "cars@3: 40 rows counted\n"
    assert result.stderr == (
        f"note: kept as {PREDICTION}: if this is cut short, repeat it with this id in place of the model\n"
    )
    assert "keep_for_feedback=true" in asked[0]
    assert "model=cars%403" in asked[0]


def test_counts_are_told_by_target(tmp_path: Path) -> None:
    truth = tmp_path / "truth.csv"
    truth.write_text("id,y1,y2\n1,18,\n2,,7\n")
    counts = COUNTS | {
        "rows": {"y1": 40, "other": 1_200},
        "covered": {"y1": 38, "other": None},
        "waiting": {"y1": 2, "other": 0},
    }
    with stub({("POST", "/feedback"): [Answer(body=counts)]}) as server:
        result = pursuit("feedback", PREDICTION, truth, "--column", "y1", "--column", "y2", url=server.url)
        one = pursuit("feedback", PREDICTION, truth, "--target", "y2", url=server.url)
        bodies = [json.loads(body)["truth"] for body in server.bodies("POST", "/feedback")]
    assert result.output == (
        "cars@3\n  y1: 40 rows counted, 95.0% inside of their 95% interval; 2 rows wait for their truth\n"
        "  other: 1,200 rows counted\n"
    )
    assert one.exit_code == 0
    assert bodies == [{"y1": [18.0, None], "y2": [None, 7.0]}, {"y2": [None, 7.0]}]
    refused = pursuit("feedback", PREDICTION, truth, "--target", "y2", "--column", "y1", "--column", "y2")
    assert (refused.exit_code, "name one with --column" in refused.output) == (2, True)


def test_the_id_is_told_before_the_truth_is(tmp_path: Path) -> None:
    table = tmp_path / "table.csv"
    table.write_text("x,y\n1,2\n")
    answers = {**VERSION, **PREDICTED, ("POST", "/feedback"): [Answer(body=COUNTS, cut=True)]}
    with stub(answers) as server:
        result = pursuit("feedback", "cars@3", table, "--column", "y", url=server.url)
    assert result.exit_code == 1
    assert f"note: kept as {PREDICTION}" in result.stderr


def test_predictions_that_are_kept_say_how_to_tell_the_truth(tmp_path: Path) -> None:
    table = tmp_path / "table.csv"
    table.write_text("x\n1\n")
    answer = Answer(body=b"mean\n1.0\n", type="text/csv", headers={"x-prediction-id": PREDICTION})
    with stub({("POST", "/predict"): [answer]}) as server:
        result = pursuit("predict", "cars", table, "--keep-for-feedback", url=server.url)
        output = tmp_path / "out.csv"
        document = pursuit("predict", "cars", table, "--keep-for-feedback", "-o", output, "--json", url=server.url)
        plain = pursuit("predict", "cars", table, url=server.url)
    assert result.stdout == "mean\n1.0\n"
    assert f"pursuit feedback {PREDICTION}" in result.stderr
    assert json.loads(document.stdout)["prediction_id"] == PREDICTION
    assert "feedback" not in plain.stderr


def test_a_column_alone_of_several_targets_is_told_what_to_say(tmp_path: Path) -> None:
    truth = tmp_path / "truth.csv"
    truth.write_text("y1\n18\n")
    problem = {"detail": "truth: expected an object of lists by target ('y1', 'y2'), got a list", "title": "x"}
    with stub({("POST", "/feedback"): [Answer(status=422, body=problem, type="application/problem+json")]}) as server:
        result = pursuit("feedback", PREDICTION, truth, "--column", "y1", url=server.url)
    assert result.exit_code == 1
    assert "say with --target whose truth the column is" in " ".join(result.stderr.split())


@pytest.mark.parametrize(("name", "told"), [("pred_00", True), ("cars", False)])
def test_a_part_of_an_id_is_told_what_an_id_is(tmp_path: Path, name: str, told: bool) -> None:
    truth = tmp_path / "truth.csv"
    truth.write_text("y\n1\n")
    absent = Answer(status=404, body={"detail": f"no model '{name}'"}, type="application/problem+json")
    with stub({("GET", f"/models/{name}"): [absent], ("POST", "/predict"): [absent]}) as server:
        for words in ((), ("--target", "y")):
            result = pursuit("feedback", name, truth, *words, url=server.url)
            assert result.exit_code == 1
            assert f"no model '{name}'" in result.output
            assert ("as `pursuit predict --keep-for-feedback` printed it" in result.output) == told
