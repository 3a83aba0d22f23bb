"""The specification: defaults, round trips, and what core is told."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import InvalidRequestError
from app.services.core_spec import core_spec
from app.services.intake.training_checks import table_options
from app.services.spec_reading import read_spec
from app.services.specification import BY_HAND, SpecBody, default_name
from core.hyperparameters import KernelFamily
from core.spec import (
    Adaptation,
    Approximation,
    Artefact,
    BoundsRequest,
    Effort,
    Gain,
    KernelChoice,
    MeanRows,
    Method,
    Refinement,
    TrainSpec,
)
from tests.benchmarks.effort import specification

ROWS = np.array([0, 2, 3, 7])
"""Rows of an upload, some of which were dropped."""


def read(**given: Any) -> SpecBody:
    return read_spec(given, max_basis_size=4000)


def test_a_server_of_small_bases_takes_specifications_that_name_none() -> None:
    body = read_spec({"basis_size": 20}, max_basis_size=30)
    assert (body.basis_size, body.max_basis_size) == (20, 30)
    assert read_spec({}, max_basis_size=30).max_basis_size == 30
    assert read_spec({"max_basis_size": 30}, max_basis_size=30).max_basis_size == 30
    for field in ("basis_size", "max_basis_size"):
        with pytest.raises(InvalidRequestError, match=rf"spec\.{field}: this server takes at most 30, got 31"):
            read_spec({field: 31}, max_basis_size=30)


def test_the_defaults_of_a_sparse_model_chosen_by_hand_are_those_of_core() -> None:
    body = read(effort="quick", mean_rows="basis")
    assert core_spec(body, ["x"], ROWS) != TrainSpec()  # specs hold arrays, compared by identity
    ours, theirs = core_spec(body, ["x"], ROWS), TrainSpec()
    for name in TrainSpec.__dataclass_fields__:
        assert getattr(ours, name) == getattr(theirs, name), name


def test_quick_effort_is_a_short_search_with_basis_vectors_that_move() -> None:
    spec = core_spec(read(effort="quick"), ["x"], ROWS)
    assert (spec.adaptation, spec.refinement) == (Adaptation(rounds=1, steps=10), Refinement(steps=18))
    assert (spec.kernel, spec.mean_rows, spec.power, spec.max_basis_size) == ("gaussian", "basis", 0.6, 600)
    assert read_spec({"effort": "quick"}, max_basis_size=550).max_basis_size == 550
    measured = specification(Effort.QUICK, 0)
    assert (measured.adaptation, measured.refinement) == (spec.adaptation, spec.refinement)
    assert (measured.power, measured.max_basis_size) == (spec.power, spec.max_basis_size)
    for chosen in ({"basis_size": 40}, {"adapt": {"rounds": 2}}, {"approximation": "dtc"}, {"mean_rows": "all"}):
        assert read(effort="quick", **chosen).refine is None, chosen


def test_by_default_models_are_compared() -> None:
    spec = core_spec(read(), ["x"], ROWS)
    assert (spec.effort, spec.kernel, spec.mean_rows, spec.variance) == ("normal", "auto", "auto", "auto")
    assert spec.compares_full


@pytest.mark.parametrize("field", BY_HAND)
def test_parts_of_a_sparse_model_chosen_by_hand_leave_no_other(field: str) -> None:
    """Unless more is asked for, too."""
    values: dict[str, Any] = {
        "basis_size": 7,
        "max_basis_size": 9,
        "method": "dmax",
        "gain": "vfe",
        "approximation": "vfe",
        "power": 0.5,
        "adapt": {"rounds": 2},
        "refine": True,
        "candidates": 3,
        "cache_size": 3,
        "pool_size": 30,
        "gap_tolerance": 0.1,
        "bounds": True,
        "calibrate": "loo",
        "artefact": "mean",
        "precision": "float32",
        "hyperparameters": {
            "signal_variance": 2,
            "bias_variance": 0,
            "noise_variance": 0.5,
            "lengthscales": {"x": 1},
        },
    }
    body = read(**{field: values[field]})
    assert (body.effort, body.kernel, body.mean_rows) == ("quick", "gaussian", "basis")
    assert (body.target_transform, body.input_transform) == ("none", "none")
    asked = read(**{field: values[field]}, effort="normal")
    assert (asked.effort, asked.kernel, asked.mean_rows) == ("normal", "auto", "auto")
    own = "none" if field == "hyperparameters" else "auto"  # which are in units of the target as it is
    assert (asked.target_transform, asked.input_transform) == (own, own)
    kernel = read(**{field: values[field]}, kernel="auto")
    assert (kernel.effort, kernel.kernel, kernel.mean_rows) == ("quick", "auto", "basis")


def test_transforms_are_chosen_by_default_and_asked_for_with_any_effort() -> None:
    assert (read().target_transform, read().input_transform) == ("auto", "auto")
    quick = read(effort="quick")
    assert (quick.target_transform, quick.input_transform) == ("none", "none")
    asked = read(effort="quick", target_transform="log", input_transform="auto")
    assert (asked.target_transform, asked.input_transform) == ("log", "auto")


def test_every_field_reaches_core() -> None:
    asked = read(
        method="dmax",
        basis_size=7,
        max_basis_size=9,
        approximation="pep",
        power=0.25,
        kernel="matern32",
        mean_rows="auto",
        adapt={"rounds": 2, "steps": 3},
        hyperparameters={
            "signal_variance": 2,
            "bias_variance": 0,
            "noise_variance": 0.5,
            "lengthscales": {"b": 2, "a": 1},
        },
        standardize=False,
        candidates=11,
        cache_size=12,
        pool_size=13,
        gain="variance",
        gap_tolerance=0.5,
        refine={"steps": 4},
        holdout=0.2,
        seed=5,
        artefact="compact",
        tolerance=0.05,
    )
    spec = core_spec(asked, ["a", "b"], ROWS)
    assert spec.start is not None
    assert spec.start.lengthscales.tolist() == [1.0, 2.0]
    assert (spec.start.signal_variance, spec.start.bias_variance, spec.start.noise_variance) == (2.0, 0.0, 0.5)
    assert spec.adaptation == Adaptation(rounds=2, steps=3)
    assert (spec.method, spec.approximation, spec.power) == (Method.DMAX, Approximation.PEP, 0.25)
    assert (spec.kernel, spec.start.kernel) == (KernelChoice.MATERN32, KernelFamily.MATERN32)
    assert (spec.basis_size, spec.max_basis_size, spec.candidates) == (7, 9, 11)
    assert (spec.cache_size, spec.pool_size, spec.holdout, spec.seed) == (12, 13, 0.2, 5)
    assert spec.standardize is False
    assert spec.mean_rows is MeanRows.AUTO
    assert core_spec(read(mean_rows=3), ["a"], ROWS).mean_rows == 3
    assert (spec.artefact, spec.tolerance) == (Artefact.COMPACT, 0.05)
    assert (spec.gain, spec.gap_tolerance, spec.refinement) == (Gain.VARIANCE, 0.5, Refinement(steps=4))


@pytest.mark.parametrize(
    ("given", "refinement"), [({}, None), ({"refine": True}, Refinement()), ({"refine": False}, None)]
)
def test_ways_to_ask_for_refinement(given: dict[str, Any], refinement: Refinement | None) -> None:
    assert core_spec(read(**given), [], ROWS).refinement == refinement


def test_rows_of_the_upload_become_rows_of_the_dataset() -> None:
    assert core_spec(read(bounds=True), [], ROWS).bounds == BoundsRequest()
    assert core_spec(read(bounds={"rows": [7, 0, 2]}), [], ROWS).bounds == BoundsRequest(rows=(3, 0, 1))


@pytest.mark.parametrize("row", [1, 8])
def test_rows_that_are_not_used_have_no_bounds(row: int) -> None:
    with pytest.raises(InvalidRequestError, match=rf"spec\.bounds\.rows: row {row} is not among the 4 rows"):
        core_spec(read(bounds={"rows": [0, row]}), [], ROWS)


@pytest.mark.parametrize(
    ("given", "adaptation"),
    [
        ({}, Adaptation()),
        ({"adapt": True}, Adaptation()),
        ({"adapt": False}, None),
        ({"adapt": {"rounds": 3}}, Adaptation(rounds=3)),
    ],
)
def test_ways_to_ask_for_adaptation(given: dict[str, Any], adaptation: Adaptation | None) -> None:
    assert core_spec(read(**given), [], ROWS).adaptation == adaptation


@pytest.mark.parametrize("given", [{}, {"adapt": False}, {"basis_size": 3}, {"features": ["a"], "adapt": {"steps": 2}}])
def test_what_is_stored_reads_back_equal(given: dict[str, Any]) -> None:
    body = read(**given)
    stored = body.model_dump(mode="json")
    assert SpecBody.model_validate(stored) == body
    assert read_spec(stored, max_basis_size=4000) == body


def test_the_stored_form_speaks_as_the_api_does() -> None:
    assert read().model_dump(mode="json")["basis_size"] == "auto"
    assert read(adapt=False).model_dump(mode="json")["adapt"] is False


@pytest.mark.parametrize(("given", "expected"), [({}, None), ({"max_levels": "auto"}, None), ({"max_levels": 9}, 9)])
def test_ways_to_ask_for_levels(given: dict[str, Any], expected: int | None) -> None:
    body = read(**given)
    assert table_options(body).max_levels == expected
    stored = body.model_dump(mode="json")
    assert stored["max_levels"] == ("auto" if expected is None else expected)
    assert read_spec(stored, max_basis_size=4000) == body


def test_every_wrong_field_is_named_at_once() -> None:
    with pytest.raises(InvalidRequestError) as caught:
        read(metod="batch", holdout=3, seed="x")
    assert {fault.column for fault in caught.value.faults} == {"metod", "holdout", "seed"}
    assert "did you mean method?" in caught.value.message


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("artefact", "tiny", "expected one of full, compact, mean; got 'tiny'"),
        ("tolerance", 0, "expected more than 0; got 0"),
        ("tolerance", 1, "expected less than 1; got 1"),
        ("tolerance", "1%", "expected a number; got '1%'"),
        ("max_levels", 0, "expected at least 1; got 0"),
        ("max_levels", 10_001, "expected at most 10000; got 10001"),
        ("max_levels", "all", "expected a whole number or \"auto\"; got 'all'"),
        ("max_levels", True, 'expected a whole number or "auto"; got true'),
        ("max_levels", 2.5, 'expected a whole number or "auto"; got 2.5'),
    ],
)
def test_a_field_is_named_where_it_is_wrong(field: str, value: object, words: str) -> None:
    with pytest.raises(InvalidRequestError, match=rf"spec\.{field}: ") as caught:
        read(**{field: value})
    assert words in caught.value.message


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_numbers_that_are_none_are_refused(value: float) -> None:
    with pytest.raises(InvalidRequestError, match=r"spec\.power"):
        read(power=value)


@pytest.mark.parametrize(
    ("filename", "name"),
    [
        ("cars.csv", "cars"),
        ("/tmp/My cars (2).csv.gz", "My-cars-2"),
        (r"C:\data\cars.tsv", "cars"),
        ("foo.01.csv", "foo.01"),
        ("foo.01", "foo.01"),
        ("Cars.v2.CSV.Gz", "Cars.v2"),
        (".csv", "model"),
        ("csv", "csv"),
        ("....", "model"),
        ("", "model"),
        ("Größe.csv", "Gr-e"),
        ("_x.csv", "x"),
        ("a" * 100 + ".csv", "a" * 64),
    ],
)
def test_a_file_gives_its_model_a_name(filename: str, name: str) -> None:
    assert default_name(filename) == name


@given(st.text())
def test_the_name_of_any_file_is_a_name(filename: str) -> None:
    name = default_name(filename)
    assert read(model=name).model == name
