"""Ranges of the features: ends and a typical value, as a row for a prediction takes them."""

import random
from datetime import date, timedelta

import pytest

from tests.app.routes.service import QUICK, Service, running

DAYS = [date(2024, 1, 1) + timedelta(days=day) for day in range(60)]


@pytest.fixture(scope="module")
def ranges(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, object]]:
    chance = random.Random(5)
    lines = ["when,size,big,open,kind,y"]
    for place, day in enumerate(DAYS):
        kind = "common" if place % 3 else "rare"
        size = 0.5 * place
        big = 9007199254740993 + 4 * place
        lines.append(f"{day},{size},{big},{'true' if place % 4 else 'false'},{kind},{size + chance.gauss(0, 1):.3f}")
    with running(tmp_path_factory.mktemp("ranges")) as service:
        job = service.train("\n".join(lines), model="m", target="y", **QUICK)
        assert job["state"] == "succeeded", job
        columns = {column["name"]: column for column in job["result"]["report"]["columns"]}
        check_a_typical_row_is_predicted(service, columns)
    return columns


def check_a_typical_row_is_predicted(service: Service, columns: dict[str, dict[str, object]]) -> None:
    for end in ("typical", "lowest", "highest"):
        service.ask("m", [{name: column.get(end, column["typical"]) for name, column in columns.items()}])


def test_numbers(ranges: dict[str, dict[str, object]]) -> None:
    assert (ranges["size"]["lowest"], ranges["size"]["highest"]) == (0.0, 29.5)
    assert ranges["size"]["typical"] in (14.5, 15.0)


def test_dates_are_texts(ranges: dict[str, dict[str, object]]) -> None:
    assert (ranges["when"]["lowest"], ranges["when"]["highest"]) == (str(DAYS[0]), str(DAYS[-1]))
    assert ranges["when"]["typical"] in (str(DAYS[29]), str(DAYS[30]))


def test_large_integers_are_whole(ranges: dict[str, dict[str, object]]) -> None:
    assert (ranges["big"]["lowest"], ranges["big"]["highest"]) == (9007199254740993, 9007199254740993 + 4 * 59)


def test_levels_and_booleans(ranges: dict[str, dict[str, object]]) -> None:
    assert ranges["kind"]["typical"] == "common"
    assert ranges["open"]["typical"] is True
