"""Every example of the library's README runs, one after another."""

import re
from pathlib import Path

import pytest

from tests.app.library.conftest import url, working

README = Path(__file__).parents[3] / "app" / "library" / "README.md"


@pytest.mark.slow
def test_the_examples_of_the_readme(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", README.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 7
    names: dict[str, object] = {}
    monkeypatch.chdir(tmp_path)
    with working(tmp_path / "data") as service:
        monkeypatch.setenv("PURSUIT_URL", url(service))
        for block in blocks:
            exec(compile(block, str(README), "exec"), names)
    assert "  row 0, column 'bmi', value 'tall': " in capsys.readouterr().out
