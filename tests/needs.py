"""Tests that need more than `pip install '.[test]'`: a server that speaks S3, a browser's driver, schemas, figures.

They are of the extra `test-all`. Without it pytest leaves them out, or skips them, and says so; `python -m tests.needs`
prints them, so that .ci/run can run them once it has installed it.
"""

from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).parents[1]
HOW = "pip install '.[test-all]'"

IMPORTED: Mapping[str, tuple[str, ...]] = {
    "tests/benchmarks/papers": ("joblib", "matplotlib"),
    "tests/e2e/page": ("playwright",),
    "tests/project/test_kubernetes.py": ("kubernetes_validate",),
    "tests/project/test_monitoring.py": ("promql_parser",),
    "tests/project/test_scaling.py": ("kubernetes_validate", "promql_parser"),
}
"""Modules that files or folders of tests import."""

IN_PART = (
    "tests/app/library/test_estimator.py",
    "tests/app/services/test_backup.py",
    "tests/app/storage/test_blobs.py",
    "tests/app/storage/test_bucket.py",
    "tests/app/storage/test_store_identity.py",
    "tests/e2e/test_backup.py",
    "tests/e2e/test_bucket.py",
    "tests/e2e/test_cluster.py",
    "tests/e2e/test_scenarios.py",
)
"""Files of which some tests are skipped."""


def left_out() -> Iterator[tuple[Path, str]]:
    """Yield the files and folders that cannot be imported here, each with the first module that it lacks."""
    for name, modules in IMPORTED.items():
        missing = next((module for module in modules if find_spec(module) is None), None)
        if missing is not None:
            yield ROOT / name, missing


if __name__ == "__main__":
    print(*IMPORTED, *IN_PART, sep="\n")
