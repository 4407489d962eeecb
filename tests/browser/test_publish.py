"""A published folder from disk in Debian's chromium: readable without a network or script, sorted and filtered."""

from collections.abc import Iterator

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from pgdyno.publish.site import Site
from pgdyno.store import load_run
from tests.unit.archive_sample import MARKUP, fingerprint, run_of


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of an index of three runs in a group, and one apart."""
    folder = tmp_path_factory.mktemp("published")
    runs = [run_of(folder / "runs", hours=at, tps=500 + 100 * at, version=f"{16 + at}.1") for at in range(3)]
    runs.append(run_of(folder / "runs", plan={"name": "x", "description": MARKUP}, fingerprint=fingerprint("Slow CPU")))
    site = Site(folder / "site")
    with site.locked():
        made = [site.make(load_run(each)) for each in runs]
        for each in made:
            site.write(each)
        # their two trials would make the answers void
        entries = [each.entry.model_copy(update={"alone": "", "validity": "42 passed"}) for each in made]
        site.finish(entries)
    return (folder / "site" / "index.html").as_uri()


@pytest.fixture
def opened(browser: Browser, index: str) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1280, "height": 900}, offline=True)
    page = context.new_page()
    complaints: list[str] = []
    requested: set[str] = set()
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("dialog", lambda dialog: complaints.append(dialog.message))
    page.on("request", lambda request: requested.add(request.url.partition(":")[0]))
    page.goto(index)
    yield page
    context.close()
    assert complaints == []
    assert requested == {"file"}


def servers(page: Page) -> list[str]:
    return [each.inner_text() for each in page.locator("tbody tr:visible td:nth-last-child(4)").all()]


def test_rows_are_sorted_within_their_groups_and_filtered(opened: Page) -> None:
    newest = ["PostgreSQL 18.1", "PostgreSQL 17.1", "PostgreSQL 16.1", "PostgreSQL 18.6"]
    assert servers(opened) == newest
    opened.get_by_role("button", name="server").click()
    assert servers(opened) == ["PostgreSQL 16.1", "PostgreSQL 17.1", "PostgreSQL 18.1", "PostgreSQL 18.6"]
    opened.get_by_role("button", name="server").click()
    assert servers(opened) == newest[3:] + newest[:3]
    opened.get_by_label("PostgreSQL").select_option("17")
    assert servers(opened) == ["PostgreSQL 17.1"]
    expect(opened.locator("#count")).to_have_text("1 of 4 runs")
    opened.get_by_label("PostgreSQL").select_option("")
    opened.get_by_label("Words").fill("ALERT x:")
    assert len(servers(opened)) == 1
    expect(opened.locator("tbody:visible h2")).to_have_text("Not ranked")


def test_axe_finds_nothing_and_nothing_is_wider_than_the_window(opened: Page) -> None:
    for _ in ("index", "a run"):
        for width in (1280, 400):
            opened.set_viewport_size({"width": width, "height": 900})
            for scheme in ("light", "dark"):
                opened.emulate_media(color_scheme=scheme)
                assert [each["id"] for each in Axe().run(opened).response["violations"]] == []
            assert opened.evaluate("document.documentElement.scrollWidth") <= width
        if opened.locator("#repeat").count() == 0:
            opened.locator("th[scope=row] a").first.click()
            expect(opened.locator("#repeat")).to_be_visible()
    opened.get_by_text("all runs").click()
    expect(opened.locator("h1")).to_have_text("4 runs")


def test_it_is_whole_without_its_script(browser: Browser, index: str) -> None:
    with browser.new_context(java_script_enabled=False, offline=True) as context:
        page = context.new_page()
        page.goto(index)
        assert page.locator("tbody tr:visible th[scope=row]").count() == 4
        assert not page.locator("#filters").is_visible()
        assert MARKUP in page.locator("#runs").inner_text()
