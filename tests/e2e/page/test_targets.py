"""Several targets on the page: chosen for a training, and one after the other on the model's page."""

import re
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import expect

from tests.e2e.page.conftest import Window

pytestmark = [pytest.mark.e2e]


def test_several_columns_are_predicted_and_looked_at(window: Window, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    a, b = random.uniform(-1.0, 1.0, (2, 80))
    width = np.sin(3.0 * a) + b + 0.1 * random.standard_normal(80)
    lines = zip(a.tolist(), b.tolist(), (10.0 * width).tolist(), width.tolist(), strict=True)
    path = tmp_path / "sizes.csv"
    path.write_text("a,b,height,width\n" + "".join(",".join(map(repr, line)) + "\n" for line in lines))
    page = window.open()
    page.get_by_label("Drop a table here").set_input_files(path)
    expect(page.get_by_label("Target", exact=True)).to_have_value("width")
    page.get_by_text("Predict more than one column").click()
    page.get_by_label("Also predict").select_option(["height"])
    page.get_by_role("button", name="Train").click()
    page.wait_for_url(re.compile("#/models/sizes@1"), timeout=120_000)
    expect(page.get_by_text(re.compile("width from 2 columns"))).to_be_visible()
    page.get_by_label("Target", exact=True).select_option("height")
    expect(page.get_by_text(re.compile("height from 2 columns"))).to_be_visible()
    expect(page.get_by_text("Learnt together with width.")).to_be_visible()
    page.get_by_role("link", name="Ask and what-if").click()
    expect(page.locator(".answer")).to_contain_text("height")
    expect(page.get_by_role("region", name="Why this answer")).to_contain_text("height, where no column is known")


def test_holes_are_left_out_with_several_targets(window: Window, tmp_path: Path) -> None:
    """Rows with holes can be kept for one target alone, and the page says so before the training."""
    random = np.random.default_rng(0)
    lines = random.uniform(-1.0, 1.0, (60, 4)).round(3).tolist()
    path = tmp_path / "holes.csv"
    rows = [",".join(map(repr, line)) for line in lines]
    rows[7] = "," + rows[7].partition(",")[2]
    path.write_text("a,b,height,width\n" + "\n".join(rows) + "\n")
    page = window.open()
    page.get_by_label("Drop a table here").set_input_files(path)
    keep, leave = page.get_by_label("Keep these rows"), page.get_by_label("Leave these rows out")
    expect(keep).to_be_checked()
    page.get_by_text("Predict more than one column").click()
    page.get_by_label("Also predict").select_option(["height"])
    expect(keep).to_be_disabled()
    expect(leave).to_be_checked()
    expect(page.get_by_text("For one target only, so far")).to_be_visible()
    page.get_by_label("Effort").select_option("quick")
    page.get_by_role("button", name="Train").click()
    page.wait_for_url(re.compile("#/models/holes@1"), timeout=120_000)
    expect(page.get_by_text(re.compile("width from 2 columns"))).to_be_visible()
