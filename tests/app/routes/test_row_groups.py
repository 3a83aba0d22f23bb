"""Rows that belong together: `groups` and `order` of a specification, what the report says of them, and refusals."""

import numpy as np

from tests.app.routes.service import QUICK, Service

FEW = QUICK | {"max_basis_size": 20}


def patients(count: int = 20, rows: int = 25) -> str:
    """Patients of a level of their own."""
    random = np.random.default_rng(5)
    lines = []
    for patient in range(count):
        level, age = random.normal(size=2).tolist()
        for _ in range(rows):
            x = float(random.uniform(0.0, 3.0))
            y = float(level + np.sin(x) + 0.1 * random.normal())
            lines.append(f"p{patient},{age!r},{x!r},{y!r}\n")
    return "patient,age,x,y\n" + "".join(lines)


def test_groups_are_left_out_whole(empty: Service) -> None:
    job = empty.train(patients(), model="m", **FEW | {"groups": "patient"})
    report = job["result"]["report"]
    assert report["splits"] == {
        "by": "group",
        "groups": 20,
        "column": "patient",
        "between_nmse": None,
        "later_nmse": None,
    }
    assert report["holdout"]["rows"] == 50
    assert [column["name"] for column in report["columns"]] == ["age", "x"]
    parts = [part for part in report["local_coverage"]["parts"] if part["by"] == "group"]
    assert {part["group"] for part in parts} == {f"'p{patient}'" for patient in range(20)}
    assert report["calibration"]["by"] == "cross-fitting"
    answer = empty.ask("m", [{"age": 0.1, "x": 2.0, "patient": "new"}])
    assert len(answer["mean"]) == 1


def test_rows_of_every_group_look_known_otherwise(empty: Service) -> None:
    """What the report says by rows, and a suggestion of the column."""
    report = empty.train(patients(), model="m", **FEW)["result"]["report"]
    assert report["splits"]["by"] == "row"
    assert any('set "groups": "patient"' in said for said in report["warnings"])


def test_later_rows_are_held_out(empty: Service) -> None:
    random = np.random.default_rng(6)
    days = np.arange("2024-01-01", "2024-05-10", dtype="datetime64[D]")
    level = np.cumsum(0.3 * random.normal(size=len(days)))
    lines = [f"{day},{value!r}\n" for day, value in zip(days, level.tolist(), strict=True)]
    table = "when,y\n" + "".join(random.permutation(lines))
    report = empty.train(table, model="m", **FEW | {"order": "when"})["result"]["report"]
    assert report["splits"]["by"] == "order"
    assert report["splits"]["column"] == "when"
    assert report["splits"]["later_nmse"] > report["splits"]["between_nmse"]
    assert report["holdout"]["rows"] == 13
    assert any("squared errors are" in said for said in report["warnings"])
    plain = empty.train(table, model="m", **FEW)["result"]["report"]
    assert any("rows after the last date of column 'when' are extrapolation" in said for said in plain["warnings"])


def test_what_does_not_fit_is_refused(empty: Service) -> None:
    table = patients(3, 4)
    for spec, said in (
        ({"groups": "patent"}, "groups: there is no column 'patent'"),
        ({"groups": "patient", "order": "x"}, "groups and order"),
        ({"order": "patient"}, "expected numbers or dates"),
        ({"groups": "patient", "calibrate": False}, "calibrate"),
    ):
        answer = empty.post_file(table, {"target": "y", **spec})
        assert answer.status_code == 422, spec
        assert said in answer.json()["detail"]
