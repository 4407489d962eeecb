"""A published folder from disk in Debian's chromium: readable without a network or script, sorted and filtered."""

from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from pgdyno.publish.site import Site
from pgdyno.store import load_run
from tests.browser.conftest import Opens
from tests.unit.archive_sample import MARKUP, fingerprint, run_of


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The index of three runs in a group, and one apart."""
    folder = tmp_path_factory.mktemp("published")
    runs = [run_of(folder / "runs", hours=at, tps=500 + 100 * at, version=f"{16 + at}.1") for at in range(3)]
    runs.append(run_of(folder / "runs", plan={"name": "x", "description": MARKUP}, fingerprint=fingerprint("Slow CPU")))
    site = Site(folder / "site")
    with site.hold_lock():
        made = [site.make(load_run(each)) for each in runs]
        for each in made:
            site.write(each)
        # their two trials would make the answers void
        entries = [each.entry.model_copy(update={"alone": "", "validity": "42 passed"}) for each in made]
        site.finish(entries)
    return folder / "site" / "index.html"


def servers(page: Page) -> list[str]:
    return page.locator("tbody tr:visible td:nth-last-child(4)").all_text_contents()


def test_rows_are_sorted_filtered_and_seen_by_all(opened: Opens, index: Path) -> None:
    watched = opened(index)
    page = watched.page
    newest = ["PostgreSQL 18.1", "PostgreSQL 17.1", "PostgreSQL 16.1", "PostgreSQL 18.6"]
    assert servers(page) == newest
    page.get_by_role("button", name="server").click()
    assert servers(page) == ["PostgreSQL 16.1", "PostgreSQL 17.1", "PostgreSQL 18.1", "PostgreSQL 18.6"]
    page.get_by_role("button", name="server").click()
    assert servers(page) == newest[3:] + newest[:3]
    page.get_by_label("PostgreSQL").select_option("17")
    assert servers(page) == ["PostgreSQL 17.1"]
    expect(page.locator("#count")).to_have_text("1 of 4 runs")
    page.get_by_label("PostgreSQL").select_option("")
    page.get_by_label("Words").fill("ALERT x:")
    assert len(servers(page)) == 1
    expect(page.locator("tbody:visible h2")).to_have_text("Not ranked")
    page.get_by_label("Words").fill("")
    # axe finds nothing, and nothing is wider than the window
    for place in ("index", "a run"):
        for width, scheme in ((1280, "light"), (400, "dark")):
            page.set_viewport_size({"width": width, "height": 900})
            page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
            assert [each["id"] for each in Axe().run(page).response["violations"]] == []
            assert page.evaluate("document.documentElement.scrollWidth") <= width
        if place == "index":
            page.locator("th[scope=row] a").first.click()
            expect(page.locator("#repeat")).to_be_visible()
    page.get_by_text("all runs").click()
    expect(page.locator("h1")).to_have_text("4 runs")
    assert watched.complaints == []
    assert {url.partition(":")[0] for url in watched.requests} == {"file"}


def test_it_is_whole_without_its_script(opened: Opens, index: Path) -> None:
    page = opened(index, java_script_enabled=False).page
    assert page.locator("tbody tr:visible th[scope=row]").count() == 4
    assert not page.locator("#filters").is_visible()
    assert MARKUP in page.locator("#runs").inner_text()
