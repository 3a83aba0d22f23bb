"""The picture: a PNG with points of both colours, whatever the numbers are."""

from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread

from app.demo.picture import INSIDE, OUTSIDE, draw


def colours(path: Path, wanted: str) -> int:
    """Count the pixels close to a colour."""
    rgb = np.array([int(wanted[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return int(np.sum(np.all(np.abs(imread(path)[..., :3] - rgb) < 0.15, axis=-1)))


@pytest.mark.parametrize("scale", [1.0, 1e-9, 1e12])
@pytest.mark.parametrize("rows", [2, 1_000])
def test_draw(tmp_path: Path, rows: int, scale: float) -> None:
    rng = np.random.default_rng(1)
    truth = rng.normal(0, scale, rows)
    mean = truth + 0.1 * scale
    mean[0] = truth[0] + 3 * scale  # outside of its interval
    path = tmp_path / "p.png"
    draw(
        path,
        target="price in $_^$ {",
        truth=truth.tolist(),
        mean=mean.tolist(),
        lower=(mean - scale).tolist(),
        upper=(mean + scale).tolist(),
        interval=0.95,
        scores="NMSE 0.1",
    )
    assert path.read_bytes().startswith(b"\x89PNG")
    assert path.stat().st_size < 200_000
    assert colours(path, INSIDE) > 20
    assert colours(path, OUTSIDE) > 20


def test_one_value_only(tmp_path: Path) -> None:
    draw(
        tmp_path / "p.png",
        target="y",
        truth=[1.0, 1.0],
        mean=[1.0, 1.0],
        lower=[1.0, 1.0],
        upper=[1.0, 1.0],
        interval=0.5,
        scores="",
    )
    assert (tmp_path / "p.png").exists()
