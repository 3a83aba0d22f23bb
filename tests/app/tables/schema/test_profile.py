"""The profile of a table, where it differs by what was asked for."""

import pytest

from app.tables import from_columns
from app.tables.schema.profile import describe_table

ALONE = "'x' cannot be the target as it is: the table has no column besides the target 'x' to learn from"


@pytest.mark.parametrize(("target", "warnings"), [(None, []), ("x", [ALONE])])
def test_a_column_alone_is_no_fault_unless_it_is_to_be_the_target(target: str | None, warnings: list[str]) -> None:
    profile = describe_table(from_columns({"x": [1, 2, 3]}), target)
    assert (profile["target"], profile["warnings"]) == ("x", warnings)
