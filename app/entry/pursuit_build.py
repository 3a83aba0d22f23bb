"""Build of the wheel: the packages `app` and `core` go into a folder of the package `pursuit`.

The pages of the help that are kept elsewhere in the repository are copied beside the others (`app/help/contents.py`).

At the top they would come before packages of a user's own that are called so and lie later on the module search path,
such as those of a project that is installed in development mode. `pursuit_gp` and `pursuit` know where they are.
"""

import runpy
import shutil
from pathlib import Path

from setuptools.command.build_py import build_py

PACKAGES = ("app", "core")


class BuildPy(build_py):  # type: ignore[misc]  # setuptools has no types
    """Build of a wheel's files; in development mode packages stay where they are."""

    def run(self) -> None:
        """Build, then move."""
        super().run()
        if self.editable_mode:
            return
        place = Path(self.build_lib, "pursuit", "_packages")
        shutil.rmtree(place, ignore_errors=True)  # of an earlier build in the same folder
        place.mkdir(parents=True)
        for name in PACKAGES:
            Path(self.build_lib, name).rename(place / name)
        copied: dict[str, str] = runpy.run_path("app/help/contents.py")["COPIED"]
        for file, source in copied.items():
            shutil.copyfile(source, place / "app" / "help" / file)
