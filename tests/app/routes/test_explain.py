"""`POST /models/{name}/explain`: parts that add up, near rows, distance, in the user's own columns."""

import math
import random
from typing import Any

import numpy as np
import pytest

from app.services.explain import explainer
from tests.app.routes.service import QUICK, Service, waves

LOW, HIGH = {"x": 1.0, "kind": "low"}, {"x": 4.0, "kind": "high"}


def explain(service: Service, model: str, rows: list[Any], **more: Any) -> dict[str, Any]:
    answer = service.client.post(f"/models/{model}/explain", json={"rows": rows, **more})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def check_sums(found: dict[str, Any]) -> None:
    for row in found["rows"]:
        assert found["baseline"] + sum(part["part"] for part in row["parts"]) == pytest.approx(row["centre"], rel=1e-12)
        near = row["prior"] + row["others_add"] + sum(each["adds"] for each in row["nearest"])
        assert near == pytest.approx(row["centre"], rel=1e-6, abs=1e-6)


def parts(row: dict[str, Any]) -> dict[str, float]:
    return {part["column"]: part["part"] for part in row["parts"]}


def table(rows: int = 150) -> str:
    """A target that is twice x, plus one where the kind is high, later by day, and that has nothing to do with z."""
    chance = random.Random(4)
    lines = ["x,z,kind,flag,day,y"]
    for row in range(rows):
        x, z, kind = chance.uniform(-1, 1), chance.uniform(-1, 1), chance.choice(["low", "high"])
        flag, day = chance.choice(["true", "false"]), f"2024-{1 + row % 12:02}-{1 + row % 28:02}"
        y = 2 * x + (kind == "high") - (flag == "true") + chance.gauss(0, 0.02)
        lines.append(f"{x},{z},{kind},{flag},{day},{y}")
    return "\n".join(lines)


ROW = {"x": 0.5, "z": 0.1, "kind": "high", "flag": False, "day": "2024-05-05"}


@pytest.fixture(autouse=True, scope="module")
def models(service: Service) -> None:
    """The models `mixed` (of `table`) and `kinds`."""
    assert (
        service.train(table(), model="mixed", basis_size=100, method="rand", noise="constant")["state"] == "succeeded"
    )
    assert service.train(waves(), model="kinds", **QUICK)["state"] == "succeeded"


def test_parts_are_those_of_the_columns_and_add_up(service: Service) -> None:
    found = explain(service, "mixed", [ROW])
    check_sums(found)
    (row,) = found["rows"]
    mean = service.ask("mixed", [ROW])["mean"][0]
    assert row["mean"] == pytest.approx(mean, rel=1e-12)
    assert row["centre"] == row["centre_target"] == pytest.approx(mean, rel=1e-9)
    assert found["scale"] == "target"
    assert found["remainder"] < 1e-6
    by_column = parts(row)
    # The target is a sum of parts: each is the column's effect here less its mean effect.
    assert by_column["x"] == pytest.approx(1.0, abs=0.25)
    assert by_column["kind"] == pytest.approx(0.5, abs=0.2)
    assert by_column["flag"] == pytest.approx(0.5, abs=0.2)
    assert abs(by_column["z"]) < 0.1
    values = {part["column"]: part["value"] for part in row["parts"]}
    assert values == ROW
    assert [abs(part["part"]) for part in row["parts"]] == sorted(map(abs, by_column.values()), reverse=True)


def test_near_rows_are_the_uploads_with_their_cells(service: Service) -> None:
    lines = [line.split(",") for line in table().splitlines()]
    target = dict(zip(lines[0], lines[18], strict=True))
    cells = {"x": float(target["x"]), "z": float(target["z"]), "kind": target["kind"]}
    asked = {**cells, "flag": target["flag"] == "true", "day": target["day"]}
    (row,) = explain(service, "mixed", [asked], nearest=50)["rows"]
    assert len(row["nearest"]) == 50
    distances = [near["distance"] for near in row["nearest"]]
    assert distances == sorted(distances)
    assert row["distance"] == distances[0]
    detail = service.client.get("/models/mixed/versions/1").json()
    for near in row["nearest"]:
        assert near["row"] is None or near["row"] in detail["basis_rows"]
        assert set(near["values"]) == set(asked)
        if near["row"] is not None:
            upload = lines[1 + near["row"]]
            assert near["values"]["x"] == pytest.approx(float(upload[0]), rel=1e-14)
            assert near["values"]["kind"] == upload[2]
            assert near["values"]["flag"] == (upload[3] == "true")
            assert near["values"]["day"] == upload[4]


def test_distance_from_the_data(service: Service) -> None:
    near, far = explain(service, "kinds", [LOW, {"x": 60.0, "kind": "low"}])["rows"]
    support = service.ask("kinds", [LOW, {"x": 60.0, "kind": "low"}], include=["support"])["support"]
    assert (near["support"], far["support"]) == pytest.approx(support)
    assert (near["far"], far["far"]) == (False, True)
    assert (near["outside"], far["outside"]) == ([], ["x"])
    assert near["distance"] < 1.0 < far["distance"]
    assert far["centre"] == pytest.approx(far["prior"])


@pytest.mark.parametrize("kernel", ["matern52", "matern32", "matern12"])
def test_kernels_that_are_no_products(service: Service, kernel: str) -> None:
    service.train(waves(), model=kernel, kernel=kernel, **QUICK)
    found = explain(service, kernel, [LOW, HIGH])
    check_sums(found)
    assert [row["centre"] for row in found["rows"]] == pytest.approx(service.ask(kernel, [LOW, HIGH])["mean"])
    low, high = map(parts, found["rows"])
    assert low["kind"] < -0.5 < 0.5 < high["kind"]


@pytest.mark.parametrize("rows", ["all", "basis"])
def test_means_that_rest_on_all_rows(service: Service, rows: str) -> None:
    service.train(waves(), model=f"rows-{rows}", mean_rows=rows, **QUICK)
    found = explain(service, f"rows-{rows}", [LOW, HIGH])
    check_sums(found)
    assert found["rows_of_mean"] == (20 if rows == "basis" else 120)
    assert [row["centre"] for row in found["rows"]] == pytest.approx(service.ask(f"rows-{rows}", [LOW, HIGH])["mean"])


@pytest.mark.parametrize("transform", ["log", "yeo-johnson", "rank-normal"])
def test_a_transformed_target_names_the_scale(service: Service, transform: str) -> None:
    chance = random.Random(1)
    xs = [chance.uniform(0, 3) for _ in range(80)]
    rows = "\n".join(f"{x},{math.exp(x + chance.gauss(0, 0.05))}" for x in xs)
    service.train(f"x,y\n{rows}", model=transform, target_transform=transform, **QUICK)
    found = explain(service, transform, [{"x": 2.0}])
    check_sums(found)
    (row,) = found["rows"]
    assert found["scale"] == transform
    median = service.ask(transform, [{"x": 2.0}], include=["median"])["median"][0]
    assert row["centre_target"] == pytest.approx(median, rel=1e-6)
    assert found["baseline_target"] < row["centre_target"]
    if transform == "log":
        assert row["centre_target"] == pytest.approx(math.exp(row["centre"]))


@pytest.mark.parametrize("artefact", ["compact", "mean"])
def test_smaller_artefacts(service: Service, artefact: str) -> None:
    service.train(waves(), model=artefact, artefact=artefact, **QUICK)
    found = explain(service, artefact, [LOW])
    check_sums(found)
    assert found["rows"][0]["mean"] == pytest.approx(service.ask(artefact, [LOW], interval=False)["mean"][0])
    assert (found["rows"][0]["support"] is None) is (artefact == "mean")


def test_rows_with_missing_cells_are_averages(service: Service) -> None:
    chance = random.Random(3)
    lines = ["x,z,y"]
    for _ in range(150):
        x, z = chance.uniform(0, 3), chance.uniform(0, 3)
        lines.append(f"{x if chance.random() > 0.2 else ''},{z},{x + 0.2 * z + chance.gauss(0, 0.02)}")
    service.train("\n".join(lines), model="gaps", missing="impute", **QUICK)
    rows = [{"x": None, "z": 1.0}, {"x": 2.5, "z": 1.0}]
    found = explain(service, "gaps", rows)
    check_sums(found)
    assert [row["mean"] for row in found["rows"]] == pytest.approx(service.ask("gaps", rows)["mean"])
    assert [row["centre"] for row in found["rows"]] == pytest.approx(service.ask("gaps", rows)["mean"])
    missing, known = found["rows"]
    assert next(part["value"] for part in missing["parts"] if part["column"] == "x") is None
    assert abs(parts(missing)["x"]) < abs(parts(known)["x"])
    assert missing["outside"] == []


def test_an_unseen_level_is_told(service: Service) -> None:
    service.train(waves(), model="prior", unseen="prior", **QUICK)
    (row,) = explain(service, "prior", [{"x": 1.0, "kind": "other"}])["rows"]
    assert row["outside"] == ["kind"]
    assert next(part["value"] for part in row["parts"] if part["column"] == "kind") is None


def test_columns_and_lists_are_read_as_predictions_read_them(service: Service) -> None:
    by_row = explain(service, "kinds", [LOW])
    answer = service.client.post("/models/kinds@1/explain", json={"columns": {"x": [1.0], "kind": ["low"]}})
    assert answer.json() == by_row == explain(service, "kinds@latest", [[1.0, "low"]])
    assert (by_row["model"], by_row["version"]) == ("kinds", 1)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"rows": [{"x": 1.0, "kind": "red"}]}, "'red' was not seen in training"),
        ({"rows": [{"x": 1.0}]}, "1 column missing: 'kind'"),
        ({"rows": [LOW], "columns": {"x": [1.0]}}, "not both and not neither"),
        ({}, "not both and not neither"),
        ({"rows": []}, "at least one row to explain"),
        ({"rows": [LOW] * 101}, "at most 100 are explained at once, got 101"),
        ({"rows": [LOW], "nearest": 51}, "nearest: expected 0 to 50, got 51"),
        ({"rows": [LOW], "nearest": -1}, "nearest: expected 0 to 50, got -1"),
        ({"rows": [LOW], "nearest": "many"}, "nearest"),
        ({"rows": [LOW], "interval": 0.9}, "interval"),
    ],
)
def test_refusals_name_what_is_wrong(service: Service, body: dict[str, Any], said: str) -> None:
    answer = service.client.post("/models/kinds/explain", json=body)
    assert answer.status_code == 422
    assert said in answer.text


def test_rows_are_limited_by_what_the_model_costs(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explainer, "MOST_WORK", 1_000)
    answer = service.client.post("/models/mixed/explain", json={"rows": [ROW] * 3})
    assert answer.status_code == 422
    assert f"rows, so that 1 such rows {explainer.TOO_MANY}, got 3" in answer.text
    assert explain(service, "mixed", [ROW])["rows"]  # one is always answered


def test_models_that_are_not_there(service: Service) -> None:
    for name in ("none", "kinds@9", "kinds@none"):
        assert service.client.post(f"/models/{name}/explain", json={"rows": [LOW]}).status_code == 404


def test_no_near_rows(service: Service) -> None:
    found = explain(service, "kinds", [LOW], nearest=0)
    check_sums(found)
    assert found["rows"][0]["nearest"] == []
    assert found["rows"][0]["distance"] < 1.0


def test_the_report_ranks_columns_by_their_share(service: Service) -> None:
    report = service.client.get("/models/mixed/versions/1").json()["report"]
    told = service.client.get("/models/mixed/versions/1/importance").json()["shares"]
    assert report["importance"] == told
    shares = {each["name"]: each for each in told["columns"]}
    assert told["columns"][0]["name"] == "x"
    whole = 4 / 3 + 1 / 4 + 1 / 4  # variances of 2 x, and of two even chances
    assert shares["x"]["alone"] == pytest.approx(4 / 3 / whole, abs=0.08)
    assert shares["kind"]["alone"] == pytest.approx(0.25 / whole, abs=0.05)
    assert shares["z"]["with_others"] < 0.02
    assert all(each["alone"] <= each["with_others"] + 1e-12 <= 1.0 + 1e-9 for each in told["columns"])
    assert told["spread"] == pytest.approx(math.sqrt(whole), rel=0.15)


def test_the_baseline_is_the_mean_over_independent_columns(service: Service) -> None:
    """Drawn from the training rows' own columns, by predictions."""
    lines = [line.split(",") for line in table().splitlines()]
    random_rows = np.random.default_rng(0)
    columns = {
        name: random_rows.choice([line[place] for line in lines[1:]], 4000) for place, name in enumerate(lines[0])
    }
    rows = [
        [float(x), float(z), kind, flag == "true", day]
        for x, z, kind, flag, day in zip(*(columns[name] for name in lines[0][:-1]), strict=True)
    ]
    means = np.array(service.ask("mixed", rows, interval=False)["mean"])
    baseline = explain(service, "mixed", [ROW])["baseline"]
    assert baseline == pytest.approx(means.mean(), abs=4 * means.std() / math.sqrt(len(means)) + 0.01)


def test_average_effects_are_predictions_averaged(service: Service) -> None:
    answer = service.client.get("/models/mixed/versions/1/effects")
    assert answer.status_code == 200
    told = answer.json()
    assert (told["target"], told["scale"]) == ("y", "target")
    assert told["average"] == pytest.approx(explain(service, "mixed", [ROW])["baseline"])
    columns = {column["name"]: column for column in told["columns"]}
    assert list(columns) == ["x", "z", "kind", "flag", "day"]
    for column in columns.values():
        mean = np.dot(column["weights"], column["effect"])
        assert mean == pytest.approx(told["average"], abs=1e-6)  # effects are about the average
        assert column["effect_target"] == column["effect"]
    kinds = dict(zip(columns["kind"]["values"], columns["kind"]["effect"], strict=True))
    assert kinds["high"] - kinds["low"] == pytest.approx(1.0, abs=0.15)
    flags = dict(zip(columns["flag"]["values"], columns["flag"]["effect"], strict=True))
    assert flags[True] - flags[False] == pytest.approx(-1.0, abs=0.15)
    x, effect = columns["x"]["values"], columns["x"]["effect"]
    assert np.polyfit(x, effect, 1)[0] == pytest.approx(2.0, abs=0.3)
    assert columns["day"]["values"] == sorted(columns["day"]["values"])
    assert service.client.get("/models/mixed/versions/9/effects").status_code == 404
