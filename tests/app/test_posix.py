"""What processes ask of their system."""

import os
import subprocess
import sys
from pathlib import Path


def test_a_new_data_directory_is_the_users_own(tmp_path: Path) -> None:
    """The first command makes it, under a umask that would let everybody read."""
    folder = tmp_path / "data"
    subprocess.run(
        [sys.executable, "-m", "app.cli", "migrate", "--data-dir", str(folder)],
        check=True,
        umask=0,
        env={name: value for name, value in os.environ.items() if not name.startswith("PURSUIT_")},
    )
    assert folder.stat().st_mode & 0o777 == 0o700
    database = folder / "pursuit.db"
    assert database.stat().st_mode & 0o777 == 0o600
    assert all(path.stat().st_mode & 0o077 == 0 for path in folder.rglob("*"))
