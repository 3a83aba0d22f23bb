"""Predictions over HTTP: every form gives the same bits, whatever the batch."""

import random
from typing import Any

import numpy as np
import pytest

from app.services.predict.batching import LOOP_BYTES
from app.services.predict.loaded_model import load_model
from app.services.predict.options import PredictOptions
from app.services.predict.run import answer_arrays
from app.storage import artefact
from tests.app.routes.service import CSV_BODY, JSON_BODY, QUICK, Service, waves


def ask(service: Service, **body: Any) -> dict[str, Any]:
    answer = service.client.post("/predict", json=body)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def some_rows(count: int) -> list[dict[str, Any]]:
    chance = random.Random(7)
    return [{"x": chance.uniform(-2, 9), "kind": chance.choice(["low", "high"])} for _ in range(count)]


ARRAYS = ("mean", "std", "lower", "upper")


def test_an_answer_in_full(service: Service) -> None:
    found = ask(service, model="waves", rows=[{"x": 1.0, "kind": "low"}, {"x": 40.0, "kind": "high"}], interval=0.9)
    assert list(found)[:6] == ["model", "version", "mean", "std", "lower", "upper"]
    assert list(found)[6:] == ["interval", "interval_basis", "warnings"]
    assert found["warnings"][0]["rows"] == [1]
    assert (found["model"], found["version"], found["interval"]) == ("waves", 1, 0.9)
    data = service.client.get("/models/waves/versions/1/artefact").content
    below, above = artefact.load(data).calibration.interval(0.9)
    assert -below == above > 1
    for mean, std, lower, upper in zip(*(found[name] for name in ARRAYS), strict=True):
        assert lower == pytest.approx(mean - above * std)
        assert upper == pytest.approx(mean + above * std)
    assert found["std"][1] > 3 * found["std"][0]  # far from all data the error bar says so


def test_the_error_bar_of_the_mean(service: Service) -> None:
    found = ask(service, model="waves", rows=some_rows(5), include=["latent_std"])
    assert all(0 <= latent < std for latent, std in zip(found["latent_std"], found["std"], strict=True))


def test_every_form_gives_the_same_bits(service: Service) -> None:
    rows = some_rows(40)
    expected = ask(service, model="waves", rows=rows)
    assert ask(service, model="waves", rows=[[row["x"], row["kind"]] for row in rows]) == expected
    columns = {name: [row[name] for row in rows] for name in ("kind", "x")}
    assert ask(service, model="waves", columns=columns) == expected
    csv = "kind,x,y,more\n" + "".join(f"{row['kind']},{row['x']!r},,text\n" for row in rows)
    answer = service.client.post("/predict?model=waves", content=csv, headers=CSV_BODY)
    assert answer.json() == expected
    answer = service.client.post(
        "/predict?model=waves&include=latent_std",
        content=csv,
        headers={"content-type": "text/csv", "accept": "text/csv"},
    )
    assert answer.headers["content-type"].startswith("text/csv")
    assert answer.headers["x-model"] == "waves@1"
    header, *lines = answer.text.splitlines()
    assert header == "more,mean,std,lower,upper,latent_std"
    table = np.array([[float(cell) for cell in line.split(",")[1:]] for line in lines])
    assert table[:, :4].T.tolist() == [expected[name] for name in ARRAYS]


def test_json_can_be_answered_as_csv(service: Service) -> None:
    body = {"model": "numbers", "rows": [[0.5, 0.5]]}
    answer = service.client.post("/predict", json=body, headers={"accept": "text/csv, application/json;q=0.5"})
    assert answer.text.startswith("mean,std,lower,upper\n")
    for accept in ("application/json", "*/*", "application/json, text/csv"):
        answer = service.client.post("/predict", json=body, headers={"accept": accept})
        assert answer.headers["content-type"] == "application/json"


def test_a_row_never_depends_on_the_others(service: Service) -> None:
    rows = some_rows(1500)
    together = ask(service, model="waves", rows=rows)
    for place in (0, 1, 511, 512, 1499):
        alone = ask(service, model="waves", rows=[rows[place]])
        assert [alone[name][0] for name in ARRAYS] == [together[name][place] for name in ARRAYS]


def test_small_and_large_bodies_go_different_ways_to_the_same_answer(service: Service) -> None:
    rows = [[0.25, -0.5]]
    small = ask(service, model="numbers", rows=rows)
    body = b'{"model": "numbers", ' + b" " * (2 * LOOP_BYTES) + b'"rows": [[0.25, -0.5]]}'
    large = service.client.post("/predict", content=body, headers=JSON_BODY)
    assert large.json() == small


def test_the_answer_is_what_the_artefact_predicts(service: Service) -> None:
    data = service.client.get("/models/numbers/versions/1/artefact").content
    inputs = np.random.default_rng(0).uniform(-1, 1, (20, 2))
    expected = answer_arrays(load_model(data), inputs, PredictOptions(levels=(0.95,)))
    found = ask(service, model="numbers", rows=inputs.tolist())
    assert found["mean"] == expected["mean"].tolist()
    assert [found["lower"], found["upper"]] == [expected[end].tolist() for end in ("lower", "upper")]


def test_no_rows(service: Service) -> None:
    found = ask(service, model="numbers", rows=[])
    assert [found[name] for name in ARRAYS] == [[], [], [], []]
    found = ask(service, model="numbers", columns={"a": [], "b": []})
    assert found["mean"] == []


def test_extra_columns_and_the_target_are_ignored(service: Service) -> None:
    plain = ask(service, model="numbers", rows=[{"a": 0.1, "b": 0.2}])
    assert ask(service, model="numbers", rows=[{"y": None, "b": 0.2, "note": {"deep": [1]}, "a": 0.1}]) == plain
    assert ask(service, model="numbers", columns={"b": [0.2], "note": ["x", "y"], "a": [0.1]}) == plain


def test_whole_numbers_are_numbers(service: Service) -> None:
    assert ask(service, model="numbers", rows=[[1, 0]]) == ask(service, model="numbers", rows=[[1.0, 0.0]])
    huge = ask(service, model="numbers", rows=[[10**30, -(10**30)]])
    assert huge["std"][0] > 0


def test_an_unseen_category_may_mean_the_prior(empty: Service) -> None:
    empty.train(waves(), model="open", unseen="prior", **QUICK)
    known = ask(empty, model="open", rows=[{"x": 1.0, "kind": "low"}])
    unseen = ask(empty, model="open", rows=[{"x": 1.0, "kind": "odd"}])
    assert unseen["std"][0] > 3 * known["std"][0]


def test_missing_cells_where_training_had_some(empty: Service) -> None:
    table = waves().replace("\n", "\n,low,0.1\n2.0,,0.9\n", 1)
    empty.train(table, model="gaps", missing="impute", **QUICK)
    rows = [{"x": None, "kind": "low"}, {"x": 1.0, "kind": None}]
    found = ask(empty, model="gaps", rows=rows)
    assert ask(empty, model="gaps", rows=[[None, "low"], [1.0, None]]) == found
    csv = "x,kind\n,low\n1.0,\n"
    answer = empty.client.post("/predict?model=gaps", content=csv, headers=CSV_BODY)
    assert answer.json() == found


def test_ten_thousand_rows(service: Service) -> None:
    rows = np.random.default_rng(1).uniform(-1, 1, (10_000, 2)).tolist()
    found = ask(service, model="numbers", rows=rows)
    assert len(found["mean"]) == 10_000
    assert found["mean"][77] == ask(service, model="numbers", rows=[rows[77]])["mean"][0]
