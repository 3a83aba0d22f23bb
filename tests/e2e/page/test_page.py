"""The page as people use it, in a browser: upload, train, ask, compare, promote and roll back."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import Page, Route, expect

from tests.e2e.page.conftest import LIBRARY, Site, Window
from tests.e2e.processes import surface

pytestmark = [pytest.mark.e2e]

MODEL = "#/models/surface"


def table(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def upload(window: Window, path: Path) -> Page:
    page = window.open()
    page.get_by_label("Drop a table here").set_input_files(path)
    return page


def test_a_table_is_uploaded_and_told_how_it_was_read(window: Window, tmp_path: Path) -> None:
    rows = surface(60).replace("north", "").splitlines()
    page = upload(window, table(tmp_path / "places.csv", "\n".join(rows)))
    expect(page.get_by_role("heading", level=1)).to_have_text("places.csv")
    expect(page.get_by_text("60 rows, 6 columns")).to_be_visible()
    expect(page.get_by_role("img", name=re.compile("^a: from -?[0-9.]+ to [0-9.]+"))).to_be_visible()
    expect(page.get_by_label("site")).to_have_text(re.compile("^as read: category"))
    expect(page.get_by_label("Target", exact=True)).to_have_value("y")
    holes = rows.count("") + sum(",," in row for row in rows)
    expect(page.get_by_role("group", name=f"{holes} cells are missing, in site")).to_be_visible()
    page.get_by_label("site").select_option("ignore")  # then nothing of its holes is asked
    expect(page.get_by_text("cells are missing")).to_have_count(0)


def test_a_table_can_be_dropped(window: Window) -> None:
    page = window.open()
    transfer = page.evaluate_handle(
        """() => {
            const found = new DataTransfer();
            found.items.add(new File(["a,y\\n1,2\\n2,3\\n3,5\\n"], "dropped.csv"));
            return found;
        }"""
    )
    page.dispatch_event(".drop", "drop", {"dataTransfer": transfer})
    expect(page.get_by_role("heading", level=1)).to_have_text("dropped.csv")


def test_a_bad_file_is_told_by_its_lines(window: Window, tmp_path: Path) -> None:
    page = upload(window, table(tmp_path / "ragged.csv", "a,b\n1,2\n3\n4,5,6\n"))
    alert = page.get_by_role("alert")
    expect(alert).to_contain_text("line 3: expected 2 cells, got 1")
    expect(alert.get_by_role("row")).to_have_count(3)
    expect(page.get_by_label("Drop a table here")).to_be_enabled()


def test_training_is_watched_to_its_model(window: Window, tmp_path: Path) -> None:
    page = upload(window, table(tmp_path / "hills.csv", surface(300)))
    page.get_by_text("Advanced").click()
    page.get_by_label("Kernel").select_option("matern52")
    seen: list[str] = []
    page.expose_function("told", lambda text: seen.append(text))  # noqa: PLW0108  a builtin has no place for its mark
    page.evaluate(
        """() => new MutationObserver(() => window.told(document.getElementById("announcer").textContent))
            .observe(document.getElementById("announcer"), {childList: true, characterData: true, subtree: true})"""
    )
    page.get_by_role("button", name="Train", exact=True).click()
    expect(page.get_by_role("progressbar")).to_be_visible()
    page.wait_for_url(re.compile("#/models/hills@1"))
    expect(page.get_by_role("heading", level=1)).to_have_text("hills version 1")
    lead = page.locator(".lead")
    expect(lead).to_have_text(
        re.compile(r"^y from 5 columns · ± [0-9.]+ y \(RMSE on 30 rows it had not seen\) · 95% intervals held [0-9.]+%")
    )
    assert any("Learning how far each column matters" in text or "Fitting" in text for text in seen), seen
    for title in ("Predicted against true y", "Reliability", "Residuals"):
        expect(page.locator("figure").filter(has=page.get_by_text(re.compile(f"^{title}")))).to_be_visible()


def test_whole_groups_are_left_out(window: Window, site: Site, tmp_path: Path) -> None:
    page = upload(window, table(tmp_path / "sites.csv", surface(120)))
    page.get_by_label("Effort").select_option("quick")
    page.get_by_text("Advanced").click()
    page.get_by_label("New rows will be of other groups").select_option("site")
    page.get_by_role("button", name="Train", exact=True).click()
    page.wait_for_url(re.compile("#/models/sites@1"))
    report = site.client.get("/models/sites/versions/1").json()["report"]
    assert report["splits"]["by"] == "group"
    assert report["splits"]["column"] == "site"
    assert "site" not in [column["name"] for column in report["columns"]]


def test_a_stream_that_breaks_is_asked_for_again(window: Window, tmp_path: Path) -> None:
    broken: list[str] = []

    def break_once(route: Route) -> None:
        if broken:
            route.continue_()
        else:
            broken.append(route.request.url)
            route.abort()

    window.page.route("**/events", break_once)
    page = upload(window, table(tmp_path / "again.csv", surface(120)))
    page.get_by_label("Effort").select_option("quick")
    page.get_by_role("button", name="Train", exact=True).click()
    page.wait_for_url(re.compile("#/models/again@1"))
    assert len(broken) == 1


def test_cells_that_cannot_be_used_are_named(window: Window, tmp_path: Path) -> None:
    lines = surface(80).splitlines()
    lines[7] = "oops" + lines[7][lines[7].index(",") :]
    page = upload(window, table(tmp_path / "oops.csv", "\n".join(lines)))
    page.get_by_role("button", name="Train", exact=True).click()
    row = page.get_by_role("alert").get_by_role("row").nth(1)
    expect(row).to_contain_text("oops")
    expect(row.get_by_role("rowheader")).to_have_text("7")  # of the rows of data
    expect(row).to_contain_text("a")
    page.get_by_label("a", exact=True).select_option("ignore")  # and what it says can be done at once
    page.get_by_label("Effort").select_option("quick")
    page.get_by_role("button", name="Train", exact=True).click()
    page.wait_for_url(re.compile("#/models/oops@1"))


def test_a_training_is_cancelled(window: Window, site: Site, tmp_path: Path) -> None:
    page = upload(window, table(tmp_path / "long.csv", surface(4000)))
    page.get_by_label("Effort").select_option("best")
    page.get_by_role("button", name="Train", exact=True).click()
    page.wait_for_url(re.compile("#/jobs/"))
    other = page.context.new_page()
    other.goto(f"{site.url}/")  # it is in the list of those that run, with a button of its own
    expect(other.get_by_role("button", name="Cancel the training of long")).to_be_visible()
    other.close()
    page.get_by_role("button", name="Cancel the training of long").click()
    expect(page.get_by_text("This training was cancelled. Nothing was published.")).to_be_visible()
    job = page.url.rpartition("/")[2]
    assert site.client.get(f"/jobs/{job}").json()["state"] == "cancelled"


def test_a_row_is_asked_and_the_curves_follow(window: Window, site: Site) -> None:
    page = window.open(f"{MODEL}/ask")
    big = page.locator(".answer .big")
    expect(big).to_have_text(re.compile("±"))
    page.get_by_label("a", exact=True).fill("0.5")
    page.get_by_label("site", exact=True).select_option("south")
    others = {name: float(page.get_by_label(name, exact=True).input_value()) for name in "bcd"}
    row = {"a": 0.5, "site": "south", **others}
    told = site.client.post("/predict", json={"model": "surface", "rows": [row]}).json()
    expect(big).to_have_text(f"{told['mean'][0]:.2f} ± {told['std'][0]:.2f}".replace("-", "−"))
    curve = page.get_by_role("img", name=re.compile("^y over b: from"))
    before = curve.locator("circle").get_attribute("cx")
    page.get_by_label("b, slider").fill("1.9")
    expect(page.get_by_label("b", exact=True)).to_have_value(re.compile(r"^1\.(9|89)"))
    expect(big).not_to_have_text(f"{told['mean'][0]:.2f} ± {told['std'][0]:.2f}".replace("-", "−"))
    assert curve.locator("circle").get_attribute("cx") != before
    expect(page.get_by_role("img", name=re.compile("^y by site: most for"))).to_be_visible()
    page.get_by_label("a", exact=True).fill("much")
    expect(page.get_by_label("a", exact=True)).to_have_attribute("aria-invalid", "true")
    expect(page.get_by_role("alert")).to_contain_text("much")


def test_average_effects_are_drawn(window: Window, site: Site) -> None:
    page = window.open(f"{MODEL}/look")
    section = page.get_by_role("region", name="What each column does on average")
    expect(section.locator(".card")).to_have_count(5)
    told = site.client.get("/models/surface/versions/2/effects").json()
    (kinds,) = [column for column in told["columns"] if column["name"] == "site"]
    best = kinds["values"][kinds["effect_target"].index(max(kinds["effect_target"]))]
    expect(section.get_by_role("img", name=re.compile(f"^y by site: most for {best}"))).to_be_visible()
    expect(section.get_by_role("img", name=re.compile("^y over a: from"))).to_be_visible()
    expect(page.get_by_text(re.compile(r"would make \d+% of the variance alone"))).to_be_visible()


def test_an_answer_is_explained(window: Window, site: Site) -> None:
    page = window.open(f"{MODEL}/ask")
    page.get_by_label("a", exact=True).fill("1.5")
    page.get_by_label("site", exact=True).select_option("north")
    why = page.get_by_role("region", name="Why this answer")
    expect(why.get_by_role("heading", name="Each column's part")).to_be_visible()
    expect(why.locator(".parts")).to_contain_text("a = 1.5")
    expect(why.locator(".parts")).to_contain_text("site = north")
    row = {name: page.get_by_label(name, exact=True).input_value() for name in ("a", "b", "c", "d", "site")}
    cells = {name: value if name == "site" else float(value) for name, value in row.items()}
    told = site.client.post("/models/surface/explain", json={"rows": [cells]}).json()["rows"][0]
    bars = why.locator(".parts li")
    assert bars.count() == 5
    expect(bars.first).to_contain_text(told["parts"][0]["column"])
    expect(bars.first.locator(".bar-value")).to_have_text(re.compile("^[+−]"))
    expect(why.get_by_role("row")).to_have_count(6)  # the head, and the five nearest
    expect(why.get_by_text("The nearest of 60 rows")).to_be_visible()
    page.get_by_label("a", exact=True).fill("9")
    expect(why.get_by_text("Beyond what training has seen: a.")).to_be_visible()
    why.locator("summary").first.click()
    with page.expect_download() as download:
        why.get_by_role("button", name="Download as CSV").click()
    lines = download.value.path().read_text().splitlines()
    assert lines[0] == "column,value,part"
    assert len(lines) == 6
    page.get_by_label("a", exact=True).fill("much")
    expect(why.get_by_text("nothing to explain")).to_be_visible()


def test_a_file_comes_back_with_its_predictions(window: Window, tmp_path: Path) -> None:
    page = window.open(f"{MODEL}/file")
    given = table(tmp_path / "new.csv", surface(25, seed=7))
    page.get_by_label("Table to predict").set_input_files(given)
    expect(page.get_by_text("25 rows predicted.")).to_be_visible()
    with page.expect_download() as download:
        page.get_by_role("button", name="Download new-predicted.csv").click()
    text = download.value.path().read_text()
    assert text.splitlines()[0] == "a,b,c,d,site,y,mean,std,lower,upper"
    assert [line.rsplit(",", 4)[0] for line in text.splitlines()[1:]] == given.read_text().splitlines()[1:]
    page.get_by_label("Table to predict").set_input_files(table(tmp_path / "less.csv", "a,b\n1,2\n"))
    expect(page.get_by_role("alert")).to_contain_text("'c'")


def test_predictions_of_a_dataset_are_watched_and_fetched(window: Window, site: Site) -> None:
    dataset = site.client.post("/datasets", files={"file": ("rows.csv", surface(30, seed=5))}).json()["id"]
    job = site.client.post("/predict", json={"model": "surface", "dataset": dataset}).json()["id"]
    page = window.open(f"#/jobs/{job}")
    expect(page.get_by_role("heading", level=1)).to_have_text("Predictions by surface")
    expect(page.get_by_text(re.compile("^30 rows predicted by version"))).to_be_visible(timeout=30_000)
    with page.expect_download() as download:
        page.get_by_role("button", name=re.compile("^Download surface-")).click()
    assert download.value.path().read_bytes() == site.client.get(f"/jobs/{job}/predictions").content


def test_versions_are_compared_promoted_and_rolled_back(window: Window, site: Site) -> None:
    page = window.open(f"{MODEL}/versions")
    page.get_by_label("Compare with").select_option("1")
    expect(page.get_by_text(re.compile("On the same 20 held-out rows: RMSE"))).to_be_visible()
    asked = page.get_by_role("row").filter(has=page.get_by_text("asked: method"))
    expect(asked.locator(".different")).to_have_text("batch")

    def in_use() -> int:
        return int(site.client.post("/predict", json={"model": "surface", "rows": []}).json()["version"])

    assert in_use() == 2
    page.get_by_role("button", name="Roll back to it: version 1").click()
    expect(page.get_by_text("“surface” means version 1, the champion.")).to_be_visible()
    assert in_use() == 1
    page.get_by_role("button", name="Promote: version 2").click()
    expect(page.get_by_text("“surface” means version 2, the champion.")).to_be_visible()
    assert in_use() == 2
    page.get_by_role("button", name="Delete version 1").click()
    page.get_by_role("dialog").get_by_role("button", name="Keep it").click()
    page.get_by_role("button", name="Always use the latest").click()
    expect(page.get_by_text("means the latest version, 2")).to_be_visible()
    assert site.client.get("/models/surface").json()["aliases"] == {"latest": 2}


def test_a_version_is_downloaded_and_another_deleted(window: Window, site: Site) -> None:
    for _ in range(2):
        job = site.client.post(
            "/train", json={"columns": {"x": [1, 2, 3, 4, 5, 6], "z": [2, 4, 7, 8, 9, 12]}, "spec": {"model": "short"}}
        ).json()
        site.client.get(f"/jobs/{job['id']}/events", timeout=60)
    page = window.open("#/models/short/versions")
    with page.expect_download() as download:
        page.get_by_role("button", name="Download version 1").click()
    assert download.value.suggested_filename == "short-1.safetensors"
    assert download.value.path().read_bytes() == site.client.get("/models/short/versions/1/artefact").content
    page.get_by_role("button", name="Delete version 1").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete it").click()
    expect(page.get_by_role("main").get_by_text("Version 1 is deleted.")).to_be_visible()
    assert site.client.get("/models/short/versions/1").status_code == 404


def test_code_to_use_it_works_as_it_stands(window: Window, site: Site, tmp_path: Path) -> None:
    page = window.open(f"{MODEL}/use")
    artefact = site.client.get("/models/surface/versions/2/artefact").content
    (tmp_path / "surface-2.safetensors").write_bytes(artefact)

    def run(title: str, *command: str) -> str:
        code = page.get_by_label(title, exact=True).inner_text()
        environment = {**os.environ, "PYTHONPATH": LIBRARY}
        ran = subprocess.run([*command, code], cwd=tmp_path, env=environment, capture_output=True, check=False)
        assert ran.returncode == 0, ran.stderr.decode()
        return ran.stdout.decode()

    said = [
        run(title, sys.executable, "-c") for title in ("Python", "Python, without a server", "Python, by HTTP alone")
    ]
    if shutil.which("curl") is not None:
        said += [run(title, "bash", "-c") for title in ("One row, by curl", "Open Inference Protocol (V2)")]
    page.get_by_text("The row in these examples").click()
    row = json.loads(page.locator("details pre").inner_text())
    told = site.client.post("/predict", json={"model": "surface", "rows": [row]}).json()
    assert all(f"{told['mean'][0]:.7f}"[:7] in text for text in said), said


def test_it_works_under_a_prefix(window: Window, site: Site, tmp_path: Path) -> None:
    asked: list[str] = []

    def cut(route: Route) -> None:  # as a proxy does that takes its prefix off
        asked.append(route.request.url)
        route.continue_(url=route.request.url.replace("/some/where/", "/"))

    window.page.route(f"{site.url}/some/where/**", cut)
    outside: list[str] = []
    window.page.on("request", lambda request: outside.append(request.url))
    window.url = f"{site.url}/some/where"
    page = upload(window, table(tmp_path / "below.csv", surface(80)))
    page.get_by_label("Effort").select_option("quick")
    page.get_by_role("button", name="Train", exact=True).click()
    page.wait_for_url(re.compile("/some/where/#/models/below@1"))
    page.get_by_role("link", name="Ask and what-if").click()
    expect(page.locator(".answer .big")).to_have_text(re.compile("±"))
    assert all(url.startswith(f"{site.url}/some/where/") for url in outside)
    assert len(asked) > 20


def test_an_address_that_leads_nowhere_is_told_so(window: Window) -> None:
    for place in ("#/nothing/here", "#/models/%E0%A4%A", "#main"):
        page = window.open(place)
        expect(page.get_by_role("heading", level=1)).to_have_text("There is no such page")
        window.page.goto("about:blank")


def test_the_keyboard_leads_to_the_file_and_past_the_links(window: Window) -> None:
    page = window.open()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    assert page.url.endswith("#/")  # the view stays, and is there after a reload
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "table-file"
