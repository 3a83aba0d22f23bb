"""Files in, files out: every form of a table and of an answer, small ones in memory and others by way of the disk."""

import csv
import io
import json
from collections.abc import Callable
from typing import Any

import httpx
import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from app.routes import predict, predict_files
from app.services.predict import table_parts
from tests.app.routes.problems import assert_problem
from tests.app.routes.service import QUICK, Service, numbers, waves

CSV, JSON, NPY = "text/csv", "application/json", "application/x-npy"
ARROW, PARQUET = "application/vnd.apache.arrow.stream", "application/vnd.apache.parquet"
LINES = "application/x-ndjson"
NAMES = ("mean", "std", "lower", "upper")

Columns = dict[str, list[Any]]


def as_csv(columns: Columns) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    return text.getvalue().encode()


def as_lines(columns: Columns) -> bytes:
    rows = (dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))
    return "\n".join(map(json.dumps, rows)).encode()


def as_arrow(columns: Columns) -> bytes:
    sink, table = io.BytesIO(), pa.table(columns)
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=1000)
    return sink.getvalue()


def as_parquet(columns: Columns) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table(columns), sink)
    return sink.getvalue()


def as_npy(columns: Columns) -> bytes:
    sink = io.BytesIO()
    np.save(sink, np.array([columns["a"], columns["b"]]).T)
    return sink.getvalue()


WRITERS: dict[str, Callable[[Columns], bytes]] = {
    CSV: as_csv, LINES: as_lines, ARROW: as_arrow, PARQUET: as_parquet, NPY: as_npy,
}  # fmt: skip


def read(answer: httpx.Response) -> dict[str, list[Any]]:
    """The columns of an answer of any form, as Python's values; null is None."""
    kind = answer.headers["content-type"].partition(";")[0]
    if kind == JSON:
        body = answer.json()
        return {**body.get("columns", {}), **{name: body[name] for name in NAMES if name in body}}
    if kind == NPY:
        array = np.load(io.BytesIO(answer.content))
        names = answer.headers["x-columns"].split(",")
        return {name: [None if np.isnan(v) else v for v in column] for name, column in zip(names, array.T, strict=True)}
    if kind == CSV:
        table = pa_csv.read_csv(io.BytesIO(answer.content))
    elif kind == ARROW:
        table = pa.ipc.open_stream(answer.content).read_all()
    else:
        table = pq.read_table(io.BytesIO(answer.content))
    found: dict[str, list[Any]] = table.to_pydict()
    return found


def by_way_of(monkeypatch: pytest.MonkeyPatch, *, disk: bool) -> None:
    """Have files of any size answered in memory, or by way of the disk."""
    if disk:
        monkeypatch.setattr(predict, "SMALL_BYTES", 0)


@pytest.fixture
def part_rows(monkeypatch: pytest.MonkeyPatch) -> int:
    """Rows of a part of a file: few."""
    monkeypatch.setattr(table_parts, "PART_ROWS", 700)
    return table_parts.PART_ROWS


def post(service: Service, query: str, body: bytes, kind: str, accept: str) -> httpx.Response:
    return service.client.post(f"/predict?{query}", content=body, headers={"content-type": kind, "accept": accept})


def columns(rows: int, *, seed: int = 0) -> Columns:
    random = np.random.default_rng(seed)
    a, b = random.uniform(-1, 1, (2, rows)).tolist()
    return {"id": [f"r{i}" for i in range(rows)], "b": b, "a": a}


FORMS = [JSON, CSV, NPY, ARROW, PARQUET]


@pytest.mark.parametrize(
    ("kind", "accept", "disk"),
    [
        *((kind, accept, False) for kind in WRITERS for accept in FORMS),
        *((kind, ARROW, True) for kind in WRITERS),
        *((CSV, accept, True) for accept in FORMS if accept != ARROW),
    ],
)
def test_every_form_in_gives_every_form_out(
    service: Service, kind: str, accept: str, disk: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = columns(200)
    rows = [list(row) for row in zip(table["a"], table["b"], strict=True)]
    expected = service.ask("numbers", rows)
    by_way_of(monkeypatch, disk=disk)
    answer = post(service, "model=numbers", WRITERS[kind](table), kind, accept)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].partition(";")[0] == accept
    found = read(answer)
    assert {name: found.pop(name) for name in NAMES} == {name: expected[name] for name in NAMES}
    keeps = accept in (CSV, ARROW, PARQUET) and kind != NPY
    assert found == ({"id": table["id"]} if keeps else {})
    assert accept == JSON or answer.headers["x-interval-basis"] == expected["interval_basis"]


def test_json_rows_are_answered_as_files(service: Service) -> None:
    rows = [[0.1, 0.2], [0.3, 0.4]]
    expected = service.ask("numbers", rows)
    for accept in (ARROW, PARQUET):
        answer = service.client.post("/predict", json={"model": "numbers", "rows": rows}, headers={"accept": accept})
        assert read(answer) == {name: expected[name] for name in NAMES}
    stored = pq.read_metadata(io.BytesIO(answer.content)).metadata
    assert stored is not None
    assert stored[b"pursuit"] == b"numbers@1"
    refused = service.client.post(
        "/predict", json={"model": "numbers", "rows": rows}, headers={"accept": "image/png, text/html"}
    )
    assert_problem(refused, 406, "arrow", "parquet", "npy", "csv")


@pytest.mark.parametrize("disk", [False, True])
def test_many_parts_are_one_answer(
    service: Service, disk: bool, part_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_way_of(monkeypatch, disk=disk)
    table = columns(2 * part_rows + 5, seed=1)
    places = [0, part_rows - 1, part_rows, 2 * part_rows + 4]
    expected = service.ask("numbers", [[table["a"][i], table["b"][i]] for i in places], quantiles=[0.1])
    options = "model=numbers&quantiles=0.1&interval=0.5,0.95"
    for accept in (CSV, ARROW, NPY):
        answer = post(service, options, as_parquet(table), PARQUET, accept)
        found = read(answer)
        assert [found["mean"][i] for i in places] == expected["mean"]
        assert [found["lower_0.95"][i] for i in places] == expected["lower"]
        assert len(found["mean"]) == len(table["a"])
        if accept != NPY:
            assert found["id"] == table["id"]
    body = post(service, f"{options}&keep=all", as_csv(table), CSV, JSON).json()
    assert [body["quantile_values"][0][i] for i in places] == expected["quantile_values"][0]
    assert [body["lower"][1][i] for i in places] == expected["lower"]
    assert body["columns"]["id"] == table["id"]
    assert (body["model"], body["version"], body["interval"]) == ("numbers", 1, [0.5, 0.95])


@pytest.mark.parametrize("disk", [False, True])
def test_columns_are_kept_as_asked(service: Service, disk: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    by_way_of(monkeypatch, disk=disk)
    table: Columns = {
        "id": ["007", 'say "hi"', "a,b", ""],
        "mean": ["x", "y", "z", "w"],
        "a": [0.1, 0.2, 0.3, 0.4],
        "b": [1, 2, 3, 4],
        "y": [1.5, 2.5, None, 4.5],
    }

    def asked(keep: str, accept: str) -> dict[str, list[Any]]:
        answer = post(service, f"model=numbers{keep}", as_csv(table), CSV, accept)
        assert answer.status_code == 200, answer.text
        if accept == CSV:
            header, *rows = list(csv.reader(io.StringIO(answer.text)))
            return {name: list(cells) for name, cells in zip(header, zip(*rows, strict=True), strict=True)}
        return read(answer)

    assert list(asked("&keep=none", CSV)) == list(NAMES)
    others = asked("", CSV)
    assert list(others) == ["id", "mean_input", *NAMES]
    assert (others["id"], others["mean_input"]) == (table["id"], table["mean"])
    assert list(asked("&keep=others", PARQUET)) == list(others)
    everything = asked("&keep=all", CSV)
    assert list(everything) == ["id", "mean_input", "a", "b", "y", *NAMES]
    assert everything["b"] == ["1", "2", "3", "4"]
    typed = asked("&keep=all", PARQUET)
    assert (typed["b"], typed["id"]) == ([1.0, 2.0, 3.0, 4.0], table["id"])
    assert asked("&keep=others", JSON)["id"] == table["id"]


def test_words_that_are_none(service: Service) -> None:
    body = b"a,b\n1,2\n"
    assert_problem(post(service, "model=numbers&keep=some", body, CSV, JSON), 422, "keep", "none, others, all")
    assert_problem(post(service, "model=numbers&on_error=skip", body, CSV, JSON), 422, "on_error", "refuse, null")
    assert_problem(post(service, "model=numbers&keep=all", body, CSV, NPY), 422, "npy has no place")
    assert_problem(post(service, "model=numbers&keep=all&keep=none", body, CSV, CSV), 422, "keep")
    asked = {"model": "numbers", "rows": [[1, 2]], "keep": "some"}
    assert_problem(service.client.post("/predict", json=asked), 422, "keep", "none, others, all")


BAD = "id,x,kind\n1,0.5,low\n2,oops,low\n3,1.5,high\n4,2.5,odd\n5,,high\n6,3.5,low\n"


@pytest.mark.parametrize("accept", [JSON, CSV, NPY, ARROW, PARQUET])
@pytest.mark.parametrize("disk", [False, True])
def test_a_bad_row_is_null_where_that_is_asked(
    service: Service, disk: bool, accept: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_way_of(monkeypatch, disk=disk)
    good = service.ask("waves", [[0.5, "low"], [1.5, "high"], [3.5, "low"]])
    answer = post(service, "model=waves&on_error=null", BAD.encode(), CSV, accept)
    assert answer.status_code == 200, answer.text
    found = read(answer)
    for name in NAMES:
        one, two, three = good[name]
        assert found[name] == [one, None, two, None, None, three]
    if accept == JSON:
        (warning,) = answer.json()["warnings"]
        assert (warning["kind"], warning["count"], warning["rows"]) == ("failed", 3, [1, 3, 4])
        said = warning["message"]
    else:
        assert answer.headers["x-failed-rows"] == "3"
        said = answer.headers["x-warnings"]
    assert "3 rows have no prediction" in said
    assert "line 3, column 'x': 'oops'" in said or "row 1, column 'x': 'oops'" in said
    refused = post(service, "model=waves", BAD.encode(), CSV, accept)
    assert_problem(refused, 422, "line 3", "'x'", "'oops'")
    assert refused.json()["error_count"] == 3


@pytest.mark.parametrize("disk", [False, True])
def test_a_refusal_names_the_row_and_the_line_of_the_file(
    service: Service, disk: bool, part_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_way_of(monkeypatch, disk=disk)
    row = part_rows + 7
    cells = [f"{i / 1e5},0.5" for i in range(part_rows + 20)]
    cells[row] = "0.1,?"
    answer = post(service, "model=numbers", ("a,b\n" + "\n".join(cells)).encode(), CSV, CSV)
    assert_problem(answer, 422, f"line {row + 2:,}", "'b'")
    assert answer.json()["errors"][0]["row"] == row
    array = np.full((row + 3, 2), 0.5)
    array[row, 1] = np.nan
    sink = io.BytesIO()
    np.save(sink, array)
    answer = post(service, "model=numbers", sink.getvalue(), NPY, CSV)
    assert_problem(answer, 422, f"row {row:,}", "'b'")
    order = io.BytesIO()
    np.save(order, np.asfortranarray(array))
    answer = post(service, "model=numbers&on_error=null", order.getvalue(), NPY, JSON)
    assert answer.json()["warnings"][0]["rows"] == [row]
    assert answer.json()["mean"][row] is None


@pytest.mark.parametrize("disk", [False, True])
def test_a_column_that_lacks_is_refused_by_name(service: Service, disk: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    by_way_of(monkeypatch, disk=disk)
    answer = post(service, "model=numbers&on_error=null", b"id,a,B\n1,2,3\n", CSV, CSV)
    assert_problem(answer, 422, "1 column missing: 'b'", "did you mean 'b' by 'B'")


@pytest.mark.parametrize("transform", ["none", "log"])
def test_a_row_so_extreme_that_it_has_no_number(empty: Service, transform: str) -> None:
    table = "x,y\n" + "".join(f"{i / 9},{2 + i % 5}\n" for i in range(40))
    empty.train(table, model="m", target_transform=transform, **QUICK)
    rows = [[0.5], [1e308], [2.0]]
    found = empty.client.post("/predict", json={"model": "m", "rows": rows, "on_error": "null"}).json()
    strict = empty.client.post("/predict", json={"model": "m", "rows": rows})
    if strict.status_code == 200:
        assert found == strict.json()
    else:
        assert [value is None for value in found["mean"]] == [False, True, False]


def test_json_rows_that_cannot_be_read_are_null(service: Service) -> None:
    rows: list[Any] = [
        {"x": 0.5, "kind": "low"}, {"x": "oops", "kind": "low"}, {"kind": "high"}, 7, {"x": [1], "kind": "low"},
        {"x": 1.5, "kind": "high"}, {"x": 10**400, "kind": "high"},
    ]  # fmt: skip
    good = service.ask("waves", [[0.5, "low"], [1.5, "high"]])
    found = service.ask("waves", rows, on_error="null")
    one, two = good["mean"]
    assert found["mean"] == [one, None, None, None, None, two, None]
    assert found["warnings"][0]["rows"] == [1, 2, 3, 4, 6]
    lists = service.ask("waves", [[0.5, "low"], [0.5], [1.5, "high"], ["?", "low"]], on_error="null")
    assert lists["std"] == [good["std"][0], None, good["std"][1], None]
    cells = {"x": [0.5, "?", 1.5, 2.0], "kind": ["low", "low", "high", {"deep": 1}]}
    by_column = service.client.post("/predict", json={"model": "waves", "columns": cells, "on_error": "null"}).json()
    assert by_column["upper"] == [good["upper"][0], None, good["upper"][1], None]
    all_bad = service.ask("waves", [["?", "low"]], on_error="null")
    assert all_bad["mean"] == [None]
    plain = service.ask("waves", [[0.5, "low"]], on_error="null")
    assert plain == service.ask("waves", [[0.5, "low"]], on_error="refuse")
    answer = service.client.post("/predict", json={"model": "waves", "columns": {"x": [1]}, "on_error": "null"})
    assert_problem(answer, 422, "column missing", "'kind'")
    answer = service.client.post("/predict", content=b'{"model": "waves", "rows": [NaN], "on_error": "null"}')
    assert answer.status_code in (400, 415)


def test_missing_cells_are_counted_in_files(empty: Service) -> None:
    table = waves().replace("\n", "\n,low,0.1\n2.0,,0.9\n", 1)
    assert empty.train(table, model="gaps", missing="impute", **QUICK)["state"] == "succeeded"
    body = b"id,x,kind\n1,,low\n2,1.0,high\n3,?!,low\n"
    for accept in (CSV, ARROW, PARQUET):
        answer = post(empty, "model=gaps&on_error=null", body, CSV, accept)
        assert read(answer)["imputed"] == [1, 0, None]
    found = post(empty, "model=gaps&on_error=null&include=imputed", body, CSV, JSON).json()
    assert found["imputed"] == [1, 0, None]


def test_a_body_of_no_announced_length(service: Service) -> None:
    body = as_csv(columns(9))
    headers = {"content-type": CSV, "accept": CSV}
    pieces = (body[start : start + 100] for start in range(0, len(body), 100))
    answer = service.client.post("/predict?model=numbers", content=pieces, headers=headers)
    assert answer.content == post(service, "model=numbers", body, CSV, CSV).content


def test_a_file_that_unpacks_to_much_goes_by_way_of_the_disk(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(predict_files, "SMALL_ROWS", 20_000)
    rows = 25_000
    body = as_parquet({"a": [0.25] * rows, "b": [0.5] * rows})
    assert len(body) < 100_000
    found = read(post(service, "model=numbers", body, PARQUET, NPY))
    assert set(found["mean"]) == set(service.ask("numbers", [[0.25, 0.5]])["mean"])
    assert len(found["mean"]) == rows


def test_nothing_is_left_on_the_disk(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    by_way_of(monkeypatch, disk=True)
    body = numbers(50).encode()
    for query in ("model=numbers", "model=nobody", "model=waves"):
        post(service, query, body, CSV, CSV)
    left = [path.name for path in service.settings.uploads.rglob("*") if path.is_file()]
    assert [name for name in left if name != "guard" and not name.endswith(".lock")] == []
