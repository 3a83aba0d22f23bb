"""Very large tables, read by parts: every row once, the same sample however they are cut."""

import fcntl
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.compute.cluster import Cluster
from app.compute.folder import ShardFolder
from app.services.intake import large_table
from app.services.intake.ingest import IngestRequest, ingest
from app.services.intake.large_table import LargeTable, is_large, is_sampled, read_large_table, sample_rows
from app.services.intake.training_checks import table_options
from app.services.specification import SpecBody
from app.tables import Limits, RowSet, TableFit, build_design_matrix, open_canonical, read_table, write_table
from tests.app.compute.processes import dask_processes

ROWS = 3_000


def table_file(path: Path, lines: list[str]) -> Path:
    table = read_table("\n".join(["a,kind,y", *lines]).encode(), limits=Limits())
    write_table(path, table)
    return path


def lines_of(rows: int, seed: int = 0) -> list[str]:
    random = np.random.default_rng(seed)
    a, kinds = random.normal(size=rows).round(6).tolist(), random.choice(["x", "z", "w"], rows).tolist()
    y = random.normal(size=rows).tolist()
    return [f"{value!r},{kind},{target!r}" for value, kind, target in zip(a, kinds, y, strict=True)]


def fit_of(path: Path, **fields: object) -> tuple[TableFit, SpecBody]:
    body = SpecBody.model_validate(fields)
    return TableFit.of(open_canonical(path), table_options(body)), body


def everything(found: LargeTable) -> "np.ndarray[tuple[int, int], np.dtype[np.float64]]":
    """All rows of a table, the target last, sorted."""
    folder = ShardFolder(found.beyond.folder)
    sample = np.column_stack((found.sample.inputs, found.sample.targets))
    whole = np.vstack([sample, *(folder.read(part) for part in found.beyond.parts)])
    return whole[np.lexsort(whole.T)]


@pytest.mark.parametrize("workers", [1, 3])
def test_every_row_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int) -> None:
    lines = lines_of(ROWS)
    lines[17] = ",x,1.0"  # missing, and dropped
    lines[2999] = ",z,2.0"
    path = table_file(tmp_path / "t.parquet", lines)
    fit, body = fit_of(path, missing="drop")
    assert is_large(fit, body, least=1_000)
    monkeypatch.setattr(large_table, "SAMPLE_ROWS", 600)
    monkeypatch.setattr(large_table, "PART_ROWS", 700)
    found = read_large_table(str(path), fit, tmp_path / "shards", seed=0, workers=workers)
    assert found is not None
    expected = build_design_matrix(open_canonical(path), fit.schema, fit.training_rows)
    whole = np.column_stack((expected.inputs, expected.targets))
    np.testing.assert_array_equal(everything(found), whole[np.lexsort(whole.T)])
    assert found.beyond.count + len(found.sample.targets) == ROWS - 2
    assert found.sample.dropped == 2
    assert found.count == fit.training_rows.kept.count
    place = np.searchsorted(expected.rows, found.sample.rows)
    np.testing.assert_array_equal(expected.targets[place], found.sample.targets)
    np.testing.assert_array_equal(found.lowest, expected.inputs.min(axis=0))
    np.testing.assert_array_equal(found.highest, expected.inputs.max(axis=0))
    assert found.with_ends().shape == (len(found.sample.targets) + 2, expected.inputs.shape[1])


def test_the_sample_is_the_same_however_the_table_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import pyarrow.parquet as pq  # noqa: PLC0415  to write other row groups

    path = table_file(tmp_path / "t.parquet", lines_of(ROWS))
    fit, _ = fit_of(path)
    monkeypatch.setattr(large_table, "SAMPLE_ROWS", 600)
    one = read_large_table(str(path), fit, tmp_path / "one", seed=3)
    file = pq.ParquetFile(path)
    noted = file.metadata.metadata
    assert noted is not None
    with pq.ParquetWriter(tmp_path / "cut.parquet", file.schema_arrow) as writer:
        writer.write_table(file.read(), row_group_size=250)
        writer.add_key_value_metadata({"pursuit": noted[b"pursuit"].decode()})
    monkeypatch.setattr(large_table, "PART_ROWS", 500)
    many = read_large_table(str(tmp_path / "cut.parquet"), fit, tmp_path / "many", seed=3, workers=2)
    assert one is not None
    assert many is not None
    assert len(many.beyond.parts) == 6
    np.testing.assert_array_equal(one.sample.rows, many.sample.rows)
    np.testing.assert_array_equal(one.sample.inputs, many.sample.inputs)
    np.testing.assert_array_equal(everything(one), everything(many))
    other = read_large_table(str(path), fit, tmp_path / "one", seed=4)
    assert other is not None
    assert set(other.sample.rows.tolist()) != set(one.sample.rows.tolist())


@pytest.mark.parametrize("settings", [2, 40])
def test_settings_that_come_again_and_again_are_all_in_the_sample(tmp_path: Path, settings: int) -> None:
    """New rows will have them: they are drawn row by row."""
    lines = [
        f"{setting}.5,{'xz'[target % 2]},{target}" for target in range(1600 // settings) for setting in range(settings)
    ]
    path = table_file(tmp_path / "t.parquet", lines)
    fit, _ = fit_of(path)
    found = read_large_table(str(path), fit, tmp_path / "shards", seed=0)
    assert found is not None
    assert 700 < len(found.sample.targets) < 900
    assert len(np.unique(found.sample.inputs[:, 0])) == settings
    assert len(everything(found)) == 1600


@pytest.mark.parametrize(
    "fields",
    [
        {"groups": "kind"},
        {"order": "a"},
        {"bounds": {"rows": [1]}},
        {"artefact": "compact"},
        {"mean_rows": "all"},
        {"variance": "near"},
        {"target": ["y", "a"]},
    ],
)
def test_what_needs_every_row_is_not_read_by_parts(tmp_path: Path, fields: dict[str, object]) -> None:
    path = table_file(tmp_path / "t.parquet", lines_of(200))
    fit, body = fit_of(path, **fields)
    assert not is_large(fit, body, least=100)
    plain, usual = fit_of(path)
    assert is_large(plain, usual, least=100)
    assert not is_large(plain, usual, least=200)


def test_a_table_of_weights_is_not_read_by_parts(tmp_path: Path) -> None:
    path = table_file(tmp_path / "t.parquet", [line.lstrip("-") for line in lines_of(200)])
    fit, body = fit_of(path, weights="a")
    assert fit.training_rows.weights == "a"
    assert not is_large(fit, body, least=100)


def test_a_table_with_cells_to_integrate_over_is_not_read_by_parts(tmp_path: Path) -> None:
    lines = lines_of(200)
    lines[3] = ",x,1.0"
    fit, body = fit_of(table_file(tmp_path / "t.parquet", lines), missing="impute")
    assert fit.schema.integrates
    assert not is_large(fit, body, least=100)


def test_rows_of_a_sample() -> None:
    assert sample_rows(10_000_000, 8) == 200_000
    assert sample_rows(10_000_000, 100) == 80_000
    assert sample_rows(10_000_000, 1_000) == 50_000
    assert sample_rows(60_000, 8) == 30_000


@given(st.integers(0, 2**31), st.floats(0.05, 0.95))
def test_equal_rows_are_all_in_a_sample_or_none(salt: int, share: float) -> None:
    random = np.random.default_rng(salt)
    rows = np.repeat(random.integers(0, 1_000, (400, 2)).astype(float), 5, axis=0)
    rows[::5] += 0.0 * -1.0  # minus zero is zero
    found = is_sampled(rows, share, salt).reshape(400, 5)
    assert (found == found[:, :1]).all()
    assert abs(found[:, 0].mean() - share) < 6.0 * np.sqrt(share * (1.0 - share) / 400)


def test_a_part_is_asked_for_without_the_rows_of_others(tmp_path: Path) -> None:
    path = table_file(tmp_path / "t.parquet", lines_of(300))
    fit, _ = fit_of(path)
    (part,) = large_table._parts(str(path), fit, tmp_path, 0)
    assert part.kept is None  # nothing for each row where all are kept
    fit = replace(
        fit, training_rows=replace(fit.training_rows, kept=RowSet.of_numbers(np.delete(np.arange(300), [0, 8]), 300))
    )
    (part,) = large_table._parts(str(path), fit, tmp_path, 0)
    assert part.kept is not None
    assert len(part.kept) == 38


def test_the_memory_of_a_large_training_is_that_of_its_sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_table, "SAMPLE_ROWS", 500)

    def wanted(rows: int, large_rows: int | None) -> int:
        path = table_file(tmp_path / "t.parquet", lines_of(rows))
        body = SpecBody.model_validate({"basis_size": 20})
        request = IngestRequest(stored=path, limits=Limits(), spec=body, large_rows=large_rows)
        memory = ingest(request, seconds=60.0).memory
        assert memory is not None
        return memory

    assert wanted(6_000, 1_000) == wanted(3_000, 1_000)
    assert wanted(6_000, None) > wanted(3_000, None)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="a file that one process alone sees")
def test_a_table_that_the_cluster_does_not_see_is_read_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(large_table, "SAMPLE_ROWS", 600)
    path = table_file(tmp_path / "t.parquet", lines_of(ROWS))
    fit, _ = fit_of(path)
    here = read_large_table(str(path), fit, tmp_path / "shards", seed=1)
    with dask_processes(tmp_path, workers=1) as processes, path.open("rb") as file:
        cluster = Cluster(processes.address, tmp_path / "shards")
        there = read_large_table(str(path), fit, tmp_path / "shards", seed=1, cluster=cluster)
        own = fcntl.fcntl(file.fileno(), fcntl.F_DUPFD, 900)
        unseen = read_large_table(f"/proc/self/fd/{own}", fit, tmp_path / "shards", seed=1, cluster=cluster)
        os.close(own)
        cluster.close()
    assert here is not None
    for found in (there, unseen):
        assert found is not None
        np.testing.assert_array_equal(found.sample.rows, here.sample.rows)
        assert list(found.beyond.parts) == list(here.beyond.parts)
    assert caplog.text.count("the table is read here") == 1
