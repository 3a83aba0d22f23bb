"""Splitting a person's file: nothing is lost, nothing of the target reaches /predict, refusals say why."""

import csv
import gzip
import hashlib
import io
import zipfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.demo.draw import COLUMNS, main
from app.demo.table import BUNDLED, TableError, split

ROWS = [["a", "y"], *([f"text, {i}", str(i)] for i in range(60))]


def written(rows: list[list[str]], delimiter: str = ",") -> str:
    out = io.StringIO()
    csv.writer(out, delimiter=delimiter, lineterminator="\n").writerows(rows)
    return out.getvalue()


def test_the_bundled_table_is_what_its_note_says(tmp_path: Path) -> None:
    digest = hashlib.sha256(BUNDLED.read_bytes()).hexdigest()
    assert digest in BUNDLED.with_name("flights.md").read_text(encoding="utf-8")
    table = split(BUNDLED, tmp_path)
    assert (table.training_rows, len(table.truth), table.target) == (5_000, 1_000, "arr_delay")
    assert table.training.name == "flights.csv"


def test_the_bundled_table_is_remade_by_its_script(tmp_path: Path) -> None:
    names = ("year", *COLUMNS)
    rows = [[str(2013), *(f"{i}{name}" for name in COLUMNS)] for i in range(6_500)]
    rows[17][3] = ""
    with zipfile.ZipFile(tmp_path / "flights.csv.zip", "w") as archive:
        archive.writestr("flights.csv", written([list(names), *rows]))
    main(str(tmp_path / "flights.csv.zip"), str(tmp_path / "drawn.csv"))
    with (tmp_path / "drawn.csv").open(encoding="utf-8", newline="") as file:
        drawn = list(csv.reader(file))
    assert drawn[0] == list(COLUMNS)
    assert len(drawn) == 6_001
    assert len({row[0] for row in drawn[1:]}) == 6_000
    assert "17dep_delay" not in {row[0] for row in drawn}


@settings(max_examples=40, deadline=None)
@given(
    targets=st.lists(st.sampled_from(["1", "-2.5", "", "NA", "x", "inf"]), min_size=12, max_size=40),
    delimiter=st.sampled_from(",\t;|"),
    packed=st.booleans(),
)
def test_every_row_goes_to_one_side(
    tmp_path_factory: pytest.TempPathFactory, targets: list[str], delimiter: str, packed: bool
) -> None:
    folder = tmp_path_factory.mktemp("split")
    rows = [[f'quoted "{i}"{delimiter}\n', value, f"{i}"] for i, value in enumerate(targets)]
    text = written([["a", "y", "b"], *rows], delimiter).encode("utf-8-sig")
    source = folder / "in.csv.gz"
    source.write_bytes(gzip.compress(text) if packed else text)
    (folder / "out").mkdir()
    numbers = sum(value in {"1", "-2.5"} for value in targets)
    if numbers < 12:
        with pytest.raises(TableError, match="at least 12"):
            split(source, folder / "out", target="y")
        return
    table = split(source, folder / "out", target="y")
    with table.training.open(encoding="utf-8", newline="") as file:
        learn = list(csv.reader(file, delimiter=delimiter))
    held = list(csv.reader(io.StringIO(table.held_back.decode()), delimiter=delimiter))
    assert held[0] == ["a", "b"]
    assert learn[0] == ["a", "y", "b"]
    assert len(held) - 1 == len(table.truth) == numbers // 6
    assert table.training_rows == len(learn) - 1
    back = [[row[0], targets[number], row[1]] for row, number in zip(held[1:], table.numbers, strict=True)]
    assert sorted(back + learn[1:]) == sorted(rows)
    assert [float(row[1]) for row in back] == list(table.truth)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b"\n\n", "is empty"),
        (b"a,y\n", "0 rows with a number in 'y'"),
        (b"a,z\n1,2\n", "no column 'y'; its columns are a, z"),
        (b"\xff\xfe\x00garbage\x9c\xd8", "not a CSV table"),
        (b"\x1f\x8bnot really gzip", "not a CSV table"),
        (gzip.compress(written(ROWS).encode() * 50)[:-20], "not a CSV table"),
    ],
)
def test_refusals(content: bytes, words: str, tmp_path: Path) -> None:
    source = tmp_path / "in.csv"
    source.write_bytes(content)
    (tmp_path / "out").mkdir()
    with pytest.raises(TableError, match=words):
        split(source, tmp_path / "out", target="y")


@pytest.mark.parametrize("target", ["Price ", "Price", None])
def test_a_target_is_found_with_its_blanks_and_without(target: str | None, tmp_path: Path) -> None:
    source = tmp_path / "in.csv"
    source.write_text(written([["x", "x ", "Price "], *([str(i), f"{i}.5", f"{i}.25"] for i in range(12))]))
    (tmp_path / "out").mkdir()
    table = split(source, tmp_path / "out", target=target)
    assert table.target == "Price"
    assert table.training.read_text().startswith("x,x ,Price \n")
    assert table.held_back.startswith(b"x,x \n")
    assert {value % 1 for value in table.truth} == {0.25}
    with pytest.raises(TableError, match=r"' x' may be any of \['x', 'x '\]"):
        split(source, tmp_path / "out", target=" x")


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "cp1252"])
def test_decimal_commas_and_other_encodings(encoding: str, tmp_path: Path) -> None:
    source = tmp_path / "in.csv"
    source.write_bytes(written([["größe", "y"], *([f"{i},5", f"{i},25"] for i in range(12))], ";").encode(encoding))
    (tmp_path / "out").mkdir()
    table = split(source, tmp_path / "out")
    assert {value % 1 for value in table.truth} == {0.25}
    assert table.held_back.decode().startswith("größe\n")
    assert table.training.read_text(encoding="utf-8").startswith("größe;y\n")


def test_long_cells_pass_and_csv_keeps_its_limit(tmp_path: Path) -> None:
    usual = csv.field_size_limit()
    source = tmp_path / "in.csv"
    source.write_text(written([["a", "y"], *(["x" * 200_000, str(i)] for i in range(12))]))
    (tmp_path / "out").mkdir()
    assert split(source, tmp_path / "out").training_rows == 10
    assert csv.field_size_limit() == usual


def test_rows_can_be_left_out_of_those_held_back(tmp_path: Path) -> None:
    source = tmp_path / "in.csv"
    source.write_text(written(ROWS))
    table = split(source, tmp_path)
    less = table.without({0, 4})
    assert less.numbers == (*table.numbers[1:4], *table.numbers[5:])
    assert less.truth == (*table.truth[1:4], *table.truth[5:])
    lines = table.held_back.decode().splitlines()
    assert less.held_back.decode().splitlines() == [lines[0], *lines[2:5], *lines[6:]]
    assert (less.target, less.training_rows) == (table.target, table.training_rows)


def test_a_target_without_numbers_names_the_columns_that_have_some(tmp_path: Path) -> None:
    source = tmp_path / "cars.csv"
    source.write_text("mpg,maker,weight,name\n" + "".join(f"{i},m{i},{i}.5,car {i}\n" for i in range(20)))
    with pytest.raises(TableError, match=r"0 rows with a number in 'name'.* --target: mpg, weight$"):
        split(source, tmp_path)


@pytest.mark.parametrize("content", [b'{"a": 1, "y": 2}\n' * 20, b"PAR1\0\0data", b'\xef\xbb\xbf{"a": 1}'])
def test_a_table_of_another_format_is_told_from_csv(tmp_path: Path, content: bytes) -> None:
    source = tmp_path / "table"
    source.write_bytes(content)
    with pytest.raises(TableError, match="not a CSV table, and the demo reads no other"):
        split(source, tmp_path)


def test_a_gzip_file_that_is_damaged(tmp_path: Path) -> None:
    source = tmp_path / "in.csv.gz"
    packed = gzip.compress(written([["a", "y"], *([str(i * i), str(i)] for i in range(5000))]).encode())
    source.write_bytes(packed[:200] + bytes(255 - byte for byte in packed[200:]))
    with pytest.raises(TableError, match="not a CSV table"):
        split(source, tmp_path)
