"""Totals and draws of several targets over HTTP: each target's, and sums over targets by the correlation of errors."""

import io
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from app.routes import predict_joint
from app.services.predict.json_answer import dump_json
from tests.app.routes.problems import assert_problem
from tests.app.routes.service import CSV_BODY, Service, running

SPEC: dict[str, Any] = {
    "basis_size": 20,
    "adapt": {"rounds": 1, "steps": 6},
    "noise": "constant",
    "calibrate": "loo",
    "features": ["a"],
}
ROWS = [[0.25], [0.5], [-0.125], [0.75]]
NAMES = ["y1", "y2", "y3"]


def table(apart: bool = False) -> str:
    """Noise of y2 is in part that of y1, that of y3 is the opposite of y1's in part. apart: y3 is there where y1 and y2
    are not."""
    random = np.random.default_rng(0)
    a, (e, f, g) = random.uniform(-1.0, 1.0, 160), 0.3 * random.standard_normal((3, 160))
    columns = np.column_stack((a, np.sin(3.0 * a) + e, 5.0 + a + 0.8 * e + 0.5 * f, np.exp(a - 0.5 * e + 0.3 * g)))
    lines = [[f"{value!r}" for value in row] for row in columns.tolist()]
    for place, line in enumerate(lines if apart else ()):
        line[1 if place % 2 else 3] = ""
        line[2] = "" if place % 2 else line[2]
    return "a,y1,y2,y3\n" + "".join(",".join(line) + "\n" for line in lines)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """`all`, of three targets; `log`, of logarithms of two; `apart`, whose rows are not the same; `one`, a list of
    one; `plain`, of one."""
    with running(tmp_path_factory.mktemp("service")) as service:
        for model, rows, more in (
            ("all", table(), {"target": NAMES}),
            ("log", table(), {"target": ["y2", "y3"], "target_transform": "log"}),
            ("apart", table(apart=True), {"target": NAMES}),
            ("one", table(), {"target": ["y1"]}),
            ("plain", table(), {"target": "y1"}),
        ):
            job = service.train(rows, model=model, **SPEC, **more)
            assert job["state"] == "succeeded", job
        yield service


def correlation(service: Service, model: str) -> Any:
    """R as the report has it."""
    report = service.client.get(f"/models/{model}/versions/1").json()["report"]
    return np.array(report["error_correlation"]["correlation"], np.float64)


def test_each_target_has_its_total(trained: Service) -> None:
    """That of the model of one target, in an object by target."""
    found = trained.ask("all", ROWS, aggregate="sum", interval=[0.5, 0.9], quantiles=[0.2], include=["median"])
    assert {name: found[name] for name in ("aggregate", "rows", "interval", "quantiles")} == {
        "aggregate": "sum",
        "rows": 4,
        "interval": [0.5, 0.9],
        "quantiles": [0.2],
    }
    rows = trained.ask("all", ROWS)
    for name in NAMES:
        assert found["mean"][name] == pytest.approx(sum(rows["mean"][name]), rel=1e-9)
        assert 0.0 < found["latent_std"][name] < found["std"][name] < sum(rows["std"][name])
        assert found["lower"][name][1] < found["quantile_values"][name][0] < found["upper"][name][0]
    one, plain = (trained.ask(model, ROWS, aggregate="mean", samples=3, seed=2) for model in ("one", "plain"))
    assert one["aggregate"] == plain["aggregate"] == "mean"
    for field in ("mean", "std", "latent_std", "lower", "upper", "interval_basis", "method", "samples"):
        assert one[field] == {"y1": plain[field]}, field


def test_totals_of_rows_are_encoded_beside_the_event_loop(trained: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """A list of millions of numbers would hold up all other requests."""
    threads: list[str] = []

    def dump(content: Any, rows: int) -> bytes:
        threads.append(threading.current_thread().name)
        return dump_json(content, rows)

    monkeypatch.setattr(predict_joint, "dump_json", dump)
    for over in ("rows", "targets", "both"):
        trained.ask("all", ROWS, aggregate="sum", over=over)
    assert len(threads) == 3
    assert "server" not in threads  # which is that of the loop


def test_a_sum_over_targets_knows_the_correlation_of_their_errors(trained: Service) -> None:
    """sqrt(s'Rs) for each row, and for the total of all rows."""
    R = correlation(trained, "all")
    assert R[0, 1] > 0.5
    assert R[0, 2] < -0.3
    rows = trained.ask("all", ROWS, include=["latent_std"])
    each = trained.ask("all", ROWS, aggregate="sum", over="targets", interval=0.9)
    whole = trained.ask("all", ROWS, aggregate="sum", over="both")
    totals = trained.ask("all", ROWS, aggregate="sum")
    assert (each["over"], each["method"], whole["over"], whole["rows"]) == ("targets", "exact", "both", 4)
    np.testing.assert_allclose(each["mean"], sum(np.array(rows["mean"][name]) for name in NAMES), rtol=1e-9)
    for field in ("std", "latent_std"):
        s = np.array([rows[field][name] for name in NAMES])
        np.testing.assert_allclose(each[field], np.sqrt(np.einsum("tm,tr,rm->m", s, R, s)), rtol=1e-8)
        S = np.array([totals[field][name] for name in NAMES])
        assert whole[field] == pytest.approx(float(np.sqrt(S @ R @ S)), rel=1e-8)
    assert whole["mean"] == pytest.approx(sum(each["mean"]), rel=1e-9)
    assert (np.array(each["lower"]) < each["mean"]).all()
    assert (np.array(each["mean"]) < each["upper"]).all()
    mean = trained.ask("all", ROWS, aggregate="mean", over="both")
    assert mean["std"] == pytest.approx(whole["std"] / 12, rel=1e-9)
    assert trained.ask("all", ROWS, aggregate="mean", over="targets", interval=False)["mean"] == pytest.approx(
        [value / 3 for value in each["mean"]]
    )
    alone = trained.ask("one", ROWS, aggregate="sum", over="both")
    assert alone["upper"] == pytest.approx(trained.ask("plain", ROWS, aggregate="sum")["upper"], rel=1e-9)


def test_draws_are_joint_over_targets(trained: Service) -> None:
    R = correlation(trained, "all")
    found = trained.ask("all", ROWS, samples=4000, seed=5, include=["latent_std"])
    draws = np.array([found["samples"][name] for name in NAMES])
    assert draws.shape == (3, 4000, 4)
    np.testing.assert_allclose(draws.std(axis=1), [found["latent_std"][name] for name in NAMES], rtol=0.07)
    np.testing.assert_allclose(np.corrcoef(draws[:, :, 0]), R, atol=0.06)  # the first row's are as R says, always
    totals = trained.ask("all", ROWS, aggregate="sum", samples=4000)
    np.testing.assert_allclose(np.corrcoef([totals["samples"][name] for name in NAMES]), R, atol=0.06)
    for over in ("targets", "both"):
        sums = trained.ask("all", ROWS, aggregate="sum", over=over, samples=4000)
        spread = np.std(np.array(sums["samples"]), axis=0)
        np.testing.assert_allclose(spread, sums["latent_std"], rtol=0.1)
    again = trained.ask("all", ROWS, samples=4000, seed=5)
    assert again["samples"] == found["samples"]


def test_a_sum_of_transformed_targets_is_drawn(trained: Service) -> None:
    R = correlation(trained, "log")
    rows, each = trained.ask("log", ROWS), trained.ask("log", ROWS, aggregate="sum", over="targets")
    s = np.array([rows["std"][name] for name in ("y2", "y3")])
    np.testing.assert_allclose(each["std"], np.sqrt(np.einsum("tm,tr,rm->m", s, R, s)), rtol=1e-8)
    assert each["method"] == "samples"
    assert (np.array(each["lower"]) > 0.0).all()
    half = 0.5 * (np.array(each["upper"]) - each["lower"]) / 1.96
    np.testing.assert_allclose(half, each["std"], rtol=0.35)
    assert trained.ask("log", ROWS, aggregate="sum", over="targets") == each
    assert trained.ask("log", ROWS, aggregate="sum", over="both")["method"] == "samples"


def test_files_have_columns_by_target_or_of_the_sum(trained: Service) -> None:
    body = "id,a\n" + "".join(f"r{place},{row[0]!r}\n" for place, row in enumerate(ROWS))

    def lines(accept: str = "text/csv", **query: str) -> Any:
        headers = CSV_BODY | {"accept": accept}
        answer = trained.client.post("/predict", params={"model": "all", **query}, content=body, headers=headers)
        assert answer.status_code == 200, answer.text
        return answer

    totals = lines(aggregate="sum").text.splitlines()
    assert totals[0].split(",")[:6] == ["y1_mean", "y1_std", "y1_lower", "y1_upper", "y1_latent_std", "y2_mean"]
    assert len(totals) == 2
    each = lines(aggregate="sum", over="targets").text.splitlines()
    assert each[0] == "id,mean,std,lower,upper,latent_std"
    expected = trained.ask("all", ROWS, aggregate="sum", over="targets")
    assert [float(line.split(",")[3]) for line in each[1:]] == expected["lower"]
    assert len(lines(aggregate="sum", over="both").text.splitlines()) == 2
    kept = lines("application/json", aggregate="sum", over="targets", keep="others").json()
    assert kept["columns"] == {"id": ["r0", "r1", "r2", "r3"]}
    drawn = lines("application/x-npy", samples="2")
    names = drawn.headers["x-columns"].split(",")
    asked = trained.ask("all", ROWS, samples=2)
    column = np.load(io.BytesIO(drawn.content))[:, names.index("y3_sample_1")]
    np.testing.assert_allclose(column, asked["samples"]["y3"][1], rtol=1e-12)


def test_an_unknown_correlation_is_no_error_bar(trained: Service) -> None:
    """y1 and y3 share no row: no sum over targets has an error bar, and draws of the two are independent."""
    assert np.isnan(correlation(trained, "apart")[0, 2])
    for over in ("targets", "both"):
        body = {"model": "apart", "rows": ROWS, "aggregate": "sum", "over": over}
        assert_problem(trained.client.post("/predict", json=body), 422, "over", "'y1'", "unknown", "rows in common")
        assert "std" not in trained.ask("apart", ROWS, aggregate="sum", over=over, interval=False)
    assert set(trained.ask("apart", ROWS, aggregate="sum")["std"]) == set(NAMES)
    drawn = trained.ask("apart", ROWS, samples=2000)["samples"]
    assert abs(np.corrcoef(np.array(drawn["y1"])[:, 0], np.array(drawn["y3"])[:, 0])[0, 1]) < 0.08


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"aggregate": "sum", "over": "columns"}, ["over", "rows, targets, both"]),
        ({"over": "targets"}, ["over", "aggregate"]),
        ({"aggregate": "sum", "over": "targets", "model": "plain"}, ["over", "one target", "'y1'"]),
        ({"samples": 10_000, "rows": [[0.1]] * 70}, ["70 rows and 3 targets are 2,100,000"]),
        ({"aggregate": "sum", "over": "targets", "samples": 1, "rows": [[0.1]] * 2001}, ["at most 2,000 rows"]),
        ({"aggregate": "sum", "over": "both", "include": ["support"]}, ["support"]),
    ],
)
def test_refusals(trained: Service, more: dict[str, Any], words: list[str]) -> None:
    answer = trained.client.post("/predict", json={"model": "all", "rows": ROWS} | more)
    assert_problem(answer, 422, *words)
