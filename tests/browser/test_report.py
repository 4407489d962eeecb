"""The report in a browser: from disk, offline, at every width, by keyboard, printed, and checked by axe."""

import io
import re
from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect
from pypdf import PdfReader

from pgdyno.analyse.comparison import compare
from pgdyno.analyse.pairs import Metric, within
from pgdyno.audit import Evidence, Finding, Severity
from pgdyno.commands.support.print_page import print_page
from pgdyno.errors import StoreError, UsageError
from pgdyno.records import ErrorCount, Point
from pgdyno.report.report_content import Extras, ProbeSamples
from pgdyno.report.sections.over_seconds.timelines import Steps
from pgdyno.report.translation import Language, use_language
from pgdyno.store.probe_queries import ProcessSum, SeriesStep, WaitStep
from pgdyno.store.trial_tables import StatementRow
from tests.browser.conftest import Opens, serious
from tests.present import present
from tests.unit.report_sample import SampleRun, add_failure, add_repeats, add_trial, manifest, render_html, sweep
from tests.unit.test_profiling import arm

EVIL = "</script><script>alert('x')</script><img src=x onerror=\"alert(2)\">'\""


def samples(number: int, name: str = "sda", steps: int = 12, step_s: float = 1.0) -> ProbeSamples:
    every = range(steps)
    disk = f"data wal, {name}"
    series = [SeriesStep(number, step, "cpu", kind, "", 0.3003) for step in every for kind in ("user", "system", "irq")]
    series += [SeriesStep(number, step, "disk", "utilisation", disk, 0.4321) for step in every]
    series += [SeriesStep(number, step, "disk", kind, disk, 1.234e7) for step in every for kind in ("read", "written")]
    series += [SeriesStep(number, step, "wal_position", "inserted", "", 2.345e7) for step in every]
    series.append(SeriesStep(number, 5, "checkpoints", "timed", "", 1.0))
    waits = [WaitStep(number, step, kind, kind, 3.0) for step in every for kind in ("CPU", "IO", "Lock")]
    return ProbeSamples(step_s, series, waits)


def extras(run: SampleRun, text: str) -> Extras:
    evidence = [Evidence(at=text, figures={"name": text})]
    finding = Finding(
        rule="clock", severity=Severity.CAUTION, trials=[1], message=text, evidence=evidence, advice=text, source=text
    )
    arms = within(run, "target", Metric.TPS)
    probe_samples = {trial.number: samples(trial.number, text) for trial in run.trials}
    sums = {run.trials[0].number: [ProcessSum(text, 1e6, 1e6, 1e6)]}
    return Extras([finding], compare(arms), probe_samples=probe_samples, processes=sums)


@pytest.fixture(scope="module")
def page_text() -> str:
    """A page with every section, whose names of targets, queries, errors and findings are script."""
    name = EVIL
    run = sweep((name, "other"), clients=(1, 4, 16), repeats=3, seconds=10)
    number = run.trials[0].number
    run.of_statements = {
        trial.number: [StatementRow(trial.number, 0, 1, 1, name, 5, 0, 1e6, 9, 9, 9, 9)] for trial in run.trials
    }
    add_failure(run, name, 64, message=name, hint=name)
    add_trial(run, name, 16, 900, 900, repeat=4, errors=[ErrorCount(sqlstate="40001", message=name, count=number)])
    return render_html(run, name, extras(run, name))


def ground_of(page: Page) -> object:
    return page.evaluate("getComputedStyle(document.body).backgroundColor")


def test_the_page_works_by_mouse_and_key_and_keeps_nobody_out(opened: Opens, page_text: str) -> None:
    watched = opened(page_text)
    page = watched.page
    titles = page.locator("#strips h3").all_inner_texts()
    assert [title.partition(":")[0] for title in titles] == [
        "Throughput", "p99", "Active sessions", "Processors of the host", f"Disk (data wal, {EVIL})", "Disks", "WAL",
    ]  # fmt: skip
    assert page.locator("#strips text", has_text="n = 12 seconds").count() == len(titles)
    # the cursor goes by key and says the figures below it
    cursor = page.locator("#cursor")
    page.locator("#strips").focus()
    page.keyboard.press("Home")
    assert cursor.inner_text().startswith("-2 s · tps ")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert cursor.inner_text().startswith("0 s · tps ")
    assert "Lock 3" in cursor.inner_text()
    assert len({line.get_attribute("x1") for line in page.locator("#strips .cur").all()}) == 1
    # another trial is chosen
    before = page.locator("#strips path").first.get_attribute("d")
    page.locator("#trial").select_option("2")
    assert page.locator("#strips path").first.get_attribute("d") != before
    assert page.locator("#strips text", has_text="checkpoint (time)").first.is_visible()
    # names and queries that are script do nothing
    assert page.locator("img").count() == 0
    assert page.locator("td", has_text=EVIL).first.is_visible()
    assert EVIL in page.locator("#strips").inner_text()
    assert EVIL in page.locator("#trial").inner_text()
    # the contents stay in view and say where the reader is
    page.locator("#setup").scroll_into_view_if_needed()
    page.evaluate("window.scrollTo(0, document.body.scrollHeight)")
    assert 0 <= present(page.locator("nav").bounding_box())["y"] < 50
    page.wait_for_selector("nav a[aria-current]")
    # a table that is cut says so, and nothing is wider than the window
    for size in (400, 1280, 2560):
        page.set_viewport_size({"width": size, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth") <= size
        if size == 400:
            page.wait_for_selector(".box.cut + .cue", state="visible")
            narrow = page.locator(".box.cut").count()
    expect(page.locator(".box.cut")).not_to_have_count(narrow)
    page.set_viewport_size({"width": 1280, "height": 900})
    page.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true; })")
    assert serious(page) == []
    assert ground_of(page) == "rgb(255, 255, 255)"
    page.emulate_media(color_scheme="dark")
    dark = ground_of(page)
    page.emulate_media(color_scheme="light")
    page.get_by_role("button", name="Dark").click()
    assert ground_of(page) == dark == "rgb(20, 23, 26)"
    # it prints on white
    assert page.pdf(prefer_css_page_size=True).startswith(b"%PDF")
    page.emulate_media(media="print")
    assert ground_of(page) == "rgb(255, 255, 255)"
    assert not page.locator("nav").first.is_visible()
    assert [url.partition(":")[0] for url in watched.requests] == ["file"]
    assert watched.complaints == []


@pytest.mark.long
def test_a_dark_page_keeps_nobody_out(opened: Opens, page_text: str) -> None:
    page = opened(page_text, color_scheme="dark").page
    page.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true; })")
    assert serious(page) == []


def test_what_was_not_sampled_is_left_empty_and_zero_is_said(opened: Opens) -> None:
    run = sweep(clients=(4,), repeats=1, seconds=60)
    # a second without transactions at 30 s, and one second alone between two of them
    run.rows[1] = [
        replace(row, succeeded=0) if row.second == 30 else replace(row, p99_ns=None) if row.second in (40, 42) else row
        for row in run.rows[1]
    ]
    every = samples(1, steps=62)
    series = [each for each in every.series if not 20 <= each.step < 30]
    series.append(SeriesStep(1, 11, "checkpoints", "timed", "", 1.0))
    probed = ProbeSamples(1.0, series, [each for each in every.waits if not 20 <= each.step < 30])
    with use_language(Language.JAPANESE):
        html = render_html(run, "here", Extras([], probe_samples={1: probed}))
    page = opened(html).page
    page.locator("#strips").focus()
    page.keyboard.press("Home")
    for _ in range(30):
        page.keyboard.press("ArrowRight")
    assert page.locator("#cursor").inner_text().startswith("28 s · tps 0 · ")
    assert page.locator("#cursor").get_attribute("aria-live") == "polite"
    throughput, p99, waits, cpu, *_ = page.locator("#strips svg[role=img]").all()
    assert (throughput.locator("path").count(), p99.locator("path").count()) == (1, 1)
    assert len(re.findall("M", p99.locator("path").get_attribute("d") or "")) == 3
    for stacked in (waits, cpu):
        for shape in stacked.locator("path").all():
            assert len(re.findall("M", shape.get_attribute("d") or "")) == 2
    # two marks whose words would touch are in two rows
    boxes = [each.bounding_box() for each in throughput.locator("text.halo").all()]
    assert len({box["y"] for box in boxes if box}) == 2
    # the dip has no known cause, so that there is nothing to try
    assert page.locator("#dips ~ h3:not([id])").count() == 0


def test_pages_of_wide_tables_short_runs_and_failed_trials(opened: Opens) -> None:
    run = SampleRun(manifest())
    for jit in ("on", "off"):
        settings = {"jit": jit, "synchronous_commit": jit, "enable_incremental_sort": jit}
        add_repeats(run, 2, [101.0, 102.0, 103.0], point=Point(clients=2, settings=settings))
    # a hidden heading of its wide table does not widen the page
    page = opened(render_html(run, "here"), 400).page
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    # the size of a sample stands clear above its strip
    run = sweep(clients=(1,), repeats=1, seconds=1)
    run.rows = {number: [row for row in rows if row.phase == "measure"] for number, rows in run.rows.items()}
    watched = opened(render_html(run, "here"))
    strip = watched.page.locator("#strips svg").first
    said = strip.locator("text", has_text="n = 1 second")
    assert said.text_content() == "n = 1 second"
    bottom = said.evaluate("text => text.getBBox().y + text.getBBox().height")
    top = min(float(each.get_attribute("y1") or 0) for each in strip.locator("line.hair").all())
    assert bottom <= top
    assert watched.complaints == []
    run = SampleRun(manifest())
    add_failure(run, "pg18", 4)
    watched = opened(render_html(run, "here"))
    assert watched.complaints == []
    assert watched.page.locator("h1").inner_text().startswith("No trial finished")


STACKS = {
    "postgres;main;ServerLoop;ExecutorRun;ExecSeqScan;heap_getnext": 60,
    "postgres;main;ServerLoop;ExecutorRun;ExecSort;tuplesort_performsort;qsort_tuple;comparetup_heap": 25,
    "postgres;main;ServerLoop;ReadCommand;secure_read": 15,
}


@pytest.mark.long_cases("[400]")
@pytest.mark.parametrize("width", [400, 1280])
def test_a_click_on_a_bar_of_a_flame_graph_gives_it_the_whole_width(opened: Opens, width: int) -> None:
    other = {stack: count + (30 if "Sort" in stack else 0) for stack, count in STACKS.items()}
    html = render_html(sweep(), "here", Extras(profiles=[arm("a", STACKS), arm("b", other)]))
    watched = opened(html, width)
    page = watched.page
    graph = page.locator("figure#flame-1 svg")
    page.locator("details", has=graph).locator("summary").click()

    def shown() -> dict[str, tuple[float, float]]:
        """Returns left end and width of each visible bar in the drawing's units, by function."""
        bars: list[tuple[str, float, float]] = graph.locator("g").evaluate_all(
            """all => all.filter(g => g.style.display !== "none").map(g => [g.querySelector("title").textContent,
            ...["x", "width"].map(name => +g.querySelector("rect").getAttribute(name))])"""
        )
        return {name.partition(":")[0]: (x, wide) for name, x, wide in bars}

    before = shown()
    graph.locator("g", has_text="ExecSort").locator("rect").click()
    zoomed = shown()
    whole = before["all"][1]
    assert zoomed.keys() == before.keys() - {"ExecSeqScan", "heap_getnext", "ReadCommand", "secure_read"}
    assert all(wide == pytest.approx(whole, abs=1) for _, wide in zoomed.values())
    labels = graph.locator("text").evaluate_all("all => all.map(text => [text.textContent, text.getBBox().width])")
    assert any(label.startswith("comparetup_heap: ") for label, _ in labels)
    assert all(length <= whole for _, length in labels)
    assert graph.locator("xpath=..").evaluate("box => box.scrollLeft") == 0
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    graph.locator("g", has_text="all").first.locator("rect").click()
    assert {name: pytest.approx(place, abs=1) for name, place in before.items()} == shown()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert watched.complaints == []


def test_answer_picture_noise_and_validity_are_above_the_fold(opened: Opens) -> None:
    for targets in (("pg18",), ("pg17", "pg18")):
        run = sweep(targets, clients=(1, 4, 16, 64), repeats=3, seconds=10)
        page = opened(render_html(run, "here", extras(run, "a name") if len(targets) > 1 else Extras([]))).page
        page.set_viewport_size({"width": 1280, "height": 800})
        for place in ("h1", ".proof svg:visible", ".glance", ".four"):
            box = present(page.locator(place).last.bounding_box())
            assert box["y"] + box["height"] <= 800, (targets, place)


def test_without_a_browser_there_is_no_pdf(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match="neither is installed"):
        print_page("<p>")
    broken = tmp_path / "chromium"
    broken.write_text("#!/bin/sh\necho no display >&2\nexit 3\n")
    broken.chmod(0o755)
    with pytest.raises(StoreError, match="did not print the report: no display"):
        print_page("<p>")


def test_without_script_the_pictures_of_points_are_there(opened: Opens, page_text: str) -> None:
    page = opened(page_text, java_script_enabled=False).page
    assert page.locator("h1").is_visible()
    assert page.locator("#static figure").first.is_visible()
    assert not page.locator("#timeline").is_visible()


@pytest.mark.long
def test_a_hundred_trials_are_under_3_mb_and_open(opened: Opens) -> None:
    run = sweep(("pg17", "pg18"), clients=(1, 2, 4, 8, 16, 32, 64, 96, 128, 160), repeats=5, seconds=300)
    steps = Steps.for_trials(len(run.trials), probed=True)
    width = steps.width_s(run.trials[0])
    probe_samples = {trial.number: samples(trial.number, "sda", steps.most, width) for trial in run.trials}
    text = render_html(run, "here", Extras([], compare(within(run, "target", Metric.TPS)), probe_samples=probe_samples))
    assert len(run.trials) == 100
    assert len(text.encode()) < 3_000_000
    watched = opened(text)
    assert watched.complaints == []
    assert watched.page.locator("#strips svg.sw").first.is_visible()


def test_the_pdf_has_the_words_of_the_page(page_text: str) -> None:
    printed = PdfReader(io.BytesIO(print_page(page_text)))
    words = "".join(each.extract_text() for each in printed.pages)
    assert "<script>alert('x')</script>" in re.sub(r"\s", "", words)
    # what is in folded tables, too
    assert "shared_buffers" in words
    assert [each for page in printed.pages for each in page.get("/Annots", []) if "evil" in str(each)] == []
    assert {round(page.mediabox.width) for page in printed.pages} == {595}
