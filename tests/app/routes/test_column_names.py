"""Names of columns over HTTP, with the blanks that headers have; and the tables that data frames write."""

from typing import Any

import pytest

from tests.app.routes.problems import assert_problem
from tests.app.routes.service import CSV_BODY, QUICK, Service

SPACED = "Price ,area , kind\n" + "".join(f"{3 * k % 17}.5,{k % 7},{'ab'[k % 2]}\n" for k in range(40))
SPEC: dict[str, Any] = {**QUICK, "target": "Price ", "features": ["area ", " kind"], "columns": {" kind": "category"}}
LENGTHS = {"signal_variance": 1.0, "bias_variance": 1.0, "noise_variance": 0.1}


@pytest.fixture(scope="module")
def spaced(service: Service) -> str:
    job = service.train(SPACED, model="spaced", **SPEC)
    assert job["state"] == "succeeded", job
    return "spaced"


def test_the_header_may_be_quoted_with_its_blanks(service: Service, spaced: str) -> None:
    version = service.client.get(f"/models/{spaced}/versions/1").json()
    assert version["target"] == "Price"
    assert [feature["name"] for feature in version["features"]] == ["area", "kind"]
    lengthscales = {"area ": 1.0, " kind": 2.0}
    job = service.train(SPACED, model="lengths", **SPEC, hyperparameters={**LENGTHS, "lengthscales": lengthscales})
    assert job["result"]["report"]["hyperparameters"]["lengthscales"] == {"area": 1.0, "kind": 2.0}
    unknown = {**LENGTHS, "lengthscales": {"area": 1.0, "Kind": 2.0}}
    assert_problem(service.post_file(SPACED, {**SPEC, "hyperparameters": unknown}), 422, "no value for kind", "Kind")


def test_rows_may_have_the_same_blanks_or_others(service: Service, spaced: str) -> None:
    expected = service.ask(spaced, [[3, "a"]])["mean"]
    for row in ({"area": 3, "kind": "a"}, {"area ": 3, " kind": "a"}, {"\tarea": 3, "kind": "a", "Price ": 1}):
        assert service.ask(spaced, [row])["mean"] == expected
    answer = service.client.post("/predict", json={"model": spaced, "columns": {" area": [3], "kind ": ["a"]}})
    assert answer.json()["mean"] == expected
    csv = service.client.post(f"/predict?model={spaced}", content="area , kind\n3,a\n", headers=CSV_BODY)
    assert csv.json()["mean"] == expected
    inputs = [
        {"name": "area ", "shape": [1], "datatype": "INT64", "data": [3]},
        {"name": "kind", "shape": [1], "datatype": "BYTES", "data": ["a"]},
    ]
    answer = service.client.post(f"/v2/models/{spaced}/infer", json={"inputs": inputs})
    assert answer.json()["outputs"][0]["data"] == expected


def test_another_name_is_refused_with_what_may_be_meant(service: Service, spaced: str) -> None:
    assert_problem(service.post_file(SPACED, {"target": "price"}), 422, "no column 'price'", "did you mean 'Price'?")
    asked = {"model": spaced, "rows": [{"Area": 3, "kind": "a"}]}
    assert_problem(service.client.post("/predict", json=asked), 422, "'area'", "did you mean 'area' by 'Area'?")
    twins = {"model": spaced, "rows": [{" area": 3, "area ": 4, "kind": "a"}]}
    assert_problem(
        service.client.post("/predict", json=twins), 422, "'area' may mean any of the columns ' area', 'area '"
    )


def test_a_dataset_is_asked_about_by_the_header(service: Service) -> None:
    form = {"file": ("spaced.csv", SPACED)}
    answer = service.client.post("/datasets", params={"target": "Price "}, files=form)
    assert answer.status_code == 201, answer.text
    assert answer.json()["target"] == "Price"


FRAME = ",x,y\n" + "".join(f"{k + 5},{k * 7 % 20},{2 * (k * 7 % 20) + 1}\n" for k in range(20))


def test_the_table_of_a_data_frame_trains_and_predicts(service: Service) -> None:
    job = service.train(FRAME, model="frame")
    report = job["result"]["report"]
    assert "'Unnamed: 0' is the index of a data frame" in report["warnings"][0]
    assert [column["name"] for column in report["columns"]] == ["x"]
    csv = service.client.post("/predict?model=frame", content=",x\n0,4.5\n", headers=CSV_BODY)
    assert csv.json()["mean"] == [pytest.approx(10.0, abs=0.1)]  # y = 2 x + 1
    for row in ([4.5], {"x": 4.5}, {"": 0, "x": 4.5}, {"Unnamed: 0": 7, "x": 4.5}):
        assert service.ask("frame", [row])["mean"] == csv.json()["mean"]


@pytest.mark.parametrize("first", ["x", "Unnamed: 0"])
def test_a_column_that_only_rises_is_learnt_from(service: Service, first: str) -> None:
    table = f"{first},g,y\n" + "".join(f"{k},{k % 3},{2 * k + 1}\n" for k in range(20))
    name = f"rising-{first}".replace(": ", "-")
    job = service.train(table, model=name)
    found = service.ask(name, [{first: 4.5, "g": 1}])
    assert found["mean"] == [pytest.approx(10.0, abs=0.1)]  # y = 2 x + 1, between two rows
    said = [warning for warning in job["result"]["report"]["warnings"] if "looks like a row number (0, 1, 2" in warning]
    assert len(said) == (first != "x")
