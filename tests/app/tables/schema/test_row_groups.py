"""app/tables/schema/row_groups.py: which rows belong together, as a column says it."""

import numpy as np
import pytest

from app.errors import InvalidRequestError
from app.tables import DesignMatrix, GroupedBy, Schema, Table, TableFit, TableOptions, fit_schema, fit_table, read_table


def table(text: str) -> Table:
    return read_table(text.encode())


def fit(text: str, **options: object) -> tuple[Schema, DesignMatrix]:
    return fit_schema(table(text), **options)


PATIENTS = "patient,x,y\nann,1,1\nbob,2,2\nann,3,4\n,4,3\nbob,5,6\n"


def test_groups_are_values_of_their_column_which_is_no_feature() -> None:
    schema, matrix = fit(PATIENTS, groups="patient", missing="impute")
    assert [feature.name for feature in schema.features] == ["x"]
    assert matrix.row_groups is not None
    assert matrix.row_groups.by is GroupedBy.GROUPS
    assert matrix.group_values.tolist() == [0, 1, 0, 2, 1]  # a row without a group is one of its own
    assert matrix.group_names == ("ann", "bob")


def test_the_column_of_groups_is_a_feature_where_that_is_asked_for() -> None:
    schema, _ = fit(PATIENTS, groups="patient", features=["patient", "x"], missing="drop")
    assert [feature.name for feature in schema.features] == ["patient", "x"]


def test_a_missing_group_is_a_missing_cell() -> None:
    with pytest.raises(InvalidRequestError, match="line 5, column 'patient': missing") as caught:
        fit(PATIENTS, groups="patient")
    assert [fault.column for fault in caught.value.faults] == ["patient"]
    _, matrix = fit(PATIENTS, groups="patient", missing="drop")
    assert matrix.rows.tolist() == [0, 1, 2, 4]
    assert matrix.group_values.tolist() == [0, 1, 0, 1]


def test_numbers_name_groups_too() -> None:
    _, matrix = fit("id,x,y\n7,1,1\n12,2,3\n7,3,2\n", groups="id")
    assert matrix.group_names == ("7", "12")
    assert matrix.group_values.tolist() == [0, 1, 0]


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["2024-01-02", "2024-01-01", "2024-03-01"], [19724.0, 19723.0, 19783.0]),
        (["3", "1", "2"], [3.0, 1.0, 2.0]),
        (["02.01.2024", "13.01.2024", "01.03.2024"], [19724.0, 19735.0, 19783.0]),
    ],
)
def test_an_order_is_dates_or_numbers(cells: list[str], expected: list[float]) -> None:
    text = "when,x,y\n" + "".join(f"{cell},{row},{row * row}\n" for row, cell in enumerate(cells, 1))
    schema, matrix = fit(text, order="when")
    assert [feature.name for feature in schema.used] == ["when", "x"]
    assert matrix.group_values.tolist() == expected
    assert matrix.group_names == ()
    _, ignored = fit(text, order="when", columns={"when": "ignore"})
    assert ignored.inputs.shape == (3, 1)
    assert ignored.group_values.tolist() == expected


def test_a_row_without_a_place_in_time_is_dropped() -> None:
    _, matrix = fit("when,x,y\n3,1,1\n,2,2\n1,3,4\n", order="when", missing="impute")
    assert matrix.rows.tolist() == [0, 2]
    assert matrix.group_values.tolist() == [3.0, 1.0]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"groups": "patent"}, "groups: there is no column 'patent'; did you mean 'patient'"),
        ({"groups": "y"}, "groups: 'y' is the target"),
        ({"order": "patient"}, "order: column 'patient' holds category, such as .ann.; expected numbers or dates"),
        ({"order": "x", "groups": "patient"}, "groups and order: rows are left out by one of them"),
    ],
)
def test_refusals(options: dict[str, str], said: str) -> None:
    with pytest.raises(InvalidRequestError, match=said):
        fit(PATIENTS, missing="drop", **options)


def test_one_group_is_none() -> None:
    with pytest.raises(InvalidRequestError, match="groups: column 'g' is the same in every row"):
        fit("g,x,y\na,1,1\na,2,2\na,3,4\n", groups="g")


def test_a_wrong_date_is_named() -> None:
    text = "when,x,y\n" + "".join(f"2024-01-{day:02d},{day},{day}\n" for day in range(1, 20)) + "2024-01-32,3,4\n"
    with pytest.raises(InvalidRequestError, match="2024-01-32"):
        fit(text, order="when", columns={"when": "ignore"})


def test_the_column_is_kept_with_the_fit() -> None:
    read, options = table(PATIENTS), TableOptions(groups="patient", missing="drop")
    found = TableFit.of(read, options)
    again = TableFit.from_bytes(found.to_bytes())
    assert again.training_rows.row_groups == found.training_rows.row_groups
    assert again.is_of(read, options)
    assert not again.is_of(read, TableOptions(missing="drop"))


def subjects(name: str, spread: float, whole: bool = True) -> str:
    """30 subjects of 5 rows, whose levels spread so much beside errors of 1."""
    random = np.random.default_rng(2)
    level = np.repeat(spread * random.normal(size=30), 5)
    x, y = random.normal(size=150), level + random.normal(size=150)
    names = np.repeat(random.permutation(30), 5) if whole else np.repeat(np.sort(level[::5]), 5)
    return f"{name},x,y\n" + "".join(
        f"{who},{a!r},{b!r}\n" for who, a, b in zip(names.tolist(), x.tolist(), y.tolist(), strict=True)
    )


def warned(text: str) -> bool:
    _, rows = fit_table(table(text), TableOptions())
    return any('set "groups": "subject"' in warning for warning in rows.warnings)


def test_a_column_whose_values_explain_the_target_is_suggested() -> None:
    assert warned(subjects("subject", 3.0))
    assert not warned(subjects("subject", 0.3))


def test_a_quantity_is_not_suggested() -> None:
    """Neighbouring values have like targets: it is a number, and no name."""
    random = np.random.default_rng(3)
    x = np.repeat(np.arange(30), 5)
    y = 0.3 * x + random.normal(size=150)
    assert not warned("subject,z,y\n" + "".join(f"{a},{i},{b}\n" for i, (a, b) in enumerate(zip(x, y, strict=True))))
