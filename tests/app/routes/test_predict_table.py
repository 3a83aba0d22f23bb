"""`POST /predict?keep=all`: a file comes back with its own columns and the prediction beside them."""

import csv
import io

from tests.app.routes.service import CSV_BODY, Service

ASK = {"model": "waves", "keep": "all"}


def test_cells_come_back_as_they_came(service: Service) -> None:
    body = 'note;x;kind;mean\n"a, ""quoted""";1,50;low;7\n;2,0;high;\n'
    answer = service.client.post("/predict", params=ASK, content=body, headers={**CSV_BODY, "accept": "text/csv"})
    assert answer.status_code == 200, answer.text
    assert answer.headers["x-rows"] == "2"
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert list(rows[0]) == ["note", "x", "kind", "mean_input", "mean", "std", "lower", "upper"]
    assert [[row[name] for name in ("note", "x", "kind", "mean_input")] for row in rows] == [
        ['a, "quoted"', "1,50", "low", "7"],
        ["", "2,0", "high", ""],
    ]
    told = service.ask("waves", [{"x": 1.5, "kind": "low"}, {"x": 2.0, "kind": "high"}])
    assert [float(row["mean"]) for row in rows] == told["mean"]
    assert [float(row["upper"]) for row in rows] == told["upper"]


def test_a_plain_table_stays_plain(service: Service) -> None:
    answer = service.client.post(
        "/predict", params=ASK, content="x,kind\n1.0,low\n", headers={**CSV_BODY, "accept": "text/csv"}
    )
    assert '"' not in answer.text
    assert answer.text.startswith("x,kind,mean,std,lower,upper\n1.0,low,")
