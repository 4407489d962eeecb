"""The live page and those of stored runs in Debian's chromium: what users see, and that hostile names do nothing."""

import fcntl
import json
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urljoin, urlsplit

import pytest
import uvicorn
from playwright.sync_api import Browser, Dialog, Page, expect

from pgdyno.errors import ExitCode
from pgdyno.live import viewers
from pgdyno.live.app import Access, make_app
from pgdyno.live.run_journal import JournalView
from pgdyno.live.server.web_server import Address, config_of, url_of
from pgdyno.records import Outcome
from pgdyno.report.charts.svg import FONT_SIZE
from pgdyno.report.run_events import BestSeen, GridTrial, Looked, RunBegan, RunEnded, TrialEnded, TrialStarted
from pgdyno.report.terminal.progress import QuietView
from pgdyno.store import RunFolder
from pgdyno.store.run_folder import partial_path
from pgdyno.targets import Home
from tests.browser.conftest import serious
from tests.forked import PGDYNO
from tests.postgres.conftest import fresh_home, home, installed, scratch, warm_home
from tests.postgres.live_run import PATIENCE_S, background_servers, live_run, watched_plan
from tests.postgres.runs import environment
from tests.unit.archive_sample import run_of
from tests.unit.store_sample import sample_manifest

__all__ = ["fresh_home", "home", "installed", "scratch", "warm_home"]

NAME = "<img src=x onerror=alert(1)>'.sql"
"""A script that would be one on a page, too."""
PRICE = """
[price]
currency = "EUR"
date = 2026-11-01
years = 1
target.a.hourly = [{ amount = 1 }]
target.b.hourly = [{ amount = 2 }]
"""
WAIT_MS = 1_000 * PATIENCE_S


@contextmanager
def looked_at(browser: Browser, width: int = 1280, scheme: str = "light") -> Iterator[Page]:
    """A page that may say nothing on its console, show no dialog but ours, and ask no other host."""
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)  # type: ignore[arg-type]
    page = context.new_page()
    page.set_default_timeout(WAIT_MS)
    # which has 5 s of its own otherwise
    expect.set_options(timeout=WAIT_MS)
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    hosts: set[str | None] = set()

    def dismissed(dialog: Dialog) -> None:
        if dialog.message.startswith("Stop now?"):
            dialog.accept()
            return
        complaints.append(dialog.message)
        dialog.dismiss()

    page.on("dialog", dismissed)
    page.on("request", lambda request: hosts.add(urlsplit(request.url).hostname))
    yield page
    context.close()
    # a server that was ended, or that refuses a stream, is complained of by the browser
    known = ("ERR_CONNECTION_REFUSED", "ERR_INCOMPLETE", "status of 503")
    assert [each for each in complaints if not any(part in each for part in known)] == []
    assert hosts <= {"127.0.0.1"}


def fits(page: Page) -> bool:
    """Whether the page is no wider than its window."""
    return bool(page.evaluate("() => document.documentElement.scrollWidth <= window.innerWidth"))


def seen_in_both_lights(page: Page) -> None:
    """Axe finds nothing that keeps people out, light or dark, and nothing is wider than the window."""
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        assert serious(page) == []
    assert fits(page)


def test_a_run_is_watched_and_stopped(browser: Browser, warm_home: Home, tmp_path: Path) -> None:
    (tmp_path / NAME).write_text("SELECT '<script>alert(2)</script>', \"relname\" FROM pg_class LIMIT 1;\n")
    plan = watched_plan(tmp_path, NAME, clients="1, 2", seconds=600, more=PRICE)
    with live_run(warm_home, tmp_path, plan) as run, looked_at(browser, 400, "dark") as page:
        page.goto(run.url)
        expect(page.locator("#headline")).to_contain_text(f"Trial 1 of 4: a {NAME}")
        expect(page.locator("#tps")).to_have_text(re.compile(r"\d"))
        expect(page.locator("#money")).to_contain_text("EUR so far, 3 an hour")
        page.fill("#mark-text", NAME)
        page.click("text=Mark this moment")
        expect(page.locator("#feed")).to_contain_text(f"mark {NAME}")
        page.reload()
        expect(page.locator("#feed")).to_contain_text(f"mark {NAME}")
        expect(page.locator("#strip-tps svg")).to_be_visible()
        seen_in_both_lights(page)
        # another server takes the place of the one that the page has come from
        (pid,) = background_servers(tmp_path)
        os.kill(pid, signal.SIGTERM)
        expect(page.locator("#link")).to_contain_text("Connection lost")
        words: list[str | Path] = [PGDYNO, "serve", "pgdyno-runs", f"--listen=:{urlsplit(run.url).port}"]
        silent = subprocess.DEVNULL
        with subprocess.Popen(words, cwd=tmp_path, env=environment(warm_home), stdout=silent, stderr=silent) as server:
            try:
                expect(page.locator("#link")).to_have_text("Live")
                page.reload()  # its buttons are of the server before
                page.click("text=Stop now")
                expect(page.locator("#link")).to_have_text("Over")
                expect(page.locator("#headline")).to_have_text("The run was interrupted")
                assert run.end() == ExitCode.INTERRUPTED
                page.click("text=Results")
                expect(page.locator("footer")).to_contain_text(urlsplit(run.url).path.rpartition("/")[2])
                page.click("text=all runs")
                expect(page.locator("#runs")).to_contain_text("watched")
                assert fits(page)
            finally:
                server.send_signal(signal.SIGINT)
            assert server.wait(60) == ExitCode.OK


@contextmanager
def served(runs: Path, access: Access) -> Iterator[str]:
    """A server in a thread."""
    with Address(port=0).listen() as listening:
        server = uvicorn.Server(config_of(make_app(runs, access)))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            yield url_of(listening)
        finally:
            server.should_exit = True
            thread.join()


@pytest.mark.long
def test_stored_runs_behind_a_token(browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGDYNO_HOME", str(tmp_path / "home"))
    runs = tmp_path / "runs"
    first = run_of(runs)
    second, _ = (run_of(runs, hours=at, tps=700, workload=NAME, notes=[NAME]) for at in (1, 2))
    with served(runs, Access("the-token")) as url, looked_at(browser) as page:
        page.goto(url)
        expect(page.locator("h1")).to_have_text("This server requires its token")
        seen_in_both_lights(page)
        page.goto(f"{url}/enter#the-token")
        expect(page.locator("h1")).to_have_text("3 runs")
        assert "token" not in page.url
        assert page.evaluate("() => document.cookie") == ""
        seen_in_both_lights(page)
        for name in (first.name, second.name):
            page.check(f'input[value="{name}"]')
        page.click("text=Compare the two selected")
        expect(page.locator("h1")).to_contain_text(f"{second.name} vs {first.name}")
        expect(page.locator("caption").first).to_contain_text("geometric means over trials")
        seen_in_both_lights(page)
        page.click(f".about >> text={second.name}")
        expect(page.locator("footer")).to_contain_text(second.name)
        page.click("text=all runs")
        page.click("text=History >> nth=1")
        expect(page.locator("h1")).to_have_text("Throughput over 2 runs")
        expect(page.locator(".chart.wide")).to_be_visible()
        # labels have the size that their room was reckoned for
        size = "getComputedStyle(document.querySelector('.chart.wide text')).fontSize"
        assert page.evaluate(size) == f"{FONT_SIZE:g}px"
        seen_in_both_lights(page)
        page.set_viewport_size({"width": 400, "height": 900})
        expect(page.locator(".chart.narrow")).to_be_visible()
        assert fits(page)
        page.goto(url)
        seen_in_both_lights(page)


@contextmanager
def journal(
    browser: Browser, folder: RunFolder, width: int = 1280, scheme: str = "light", trials: Sequence[GridTrial] = ()
) -> Iterator[tuple[JournalView, Page]]:
    """A run of `trials` that writes its journal, and a page that has entered the server of its folder."""
    with (folder.path / ".lock").open("w") as lock, JournalView(QuietView()) as view:
        fcntl.flock(lock, fcntl.LOCK_EX)
        view.event(RunBegan(folder.path, trials))
        access = Access("the-token")
        with served(folder.path.parent, access) as url, looked_at(browser, width, scheme) as page:
            page.goto(f"{url}/enter#the-token")
            expect(page.locator("h1")).to_have_text("1 run")
            yield view, page


def test_the_interval_of_a_comparison_has_axes(browser: Browser, tmp_path: Path) -> None:
    plan = {"name": "two", "description": f"Is {NAME} faster?", "trial": {"seed": 1}}
    folder = RunFolder.create(tmp_path, sample_manifest(plan=plan))
    with journal(browser, folder, 400, trials=[GridTrial(1, "0001-a-c2", "a", 2)]) as (view, page):
        for pairs in range(6, 10):
            half = 0.3 / pairs
            view.event(Looked("b", "a", NAME, "throughput", pairs, 20, 0.05, 0.05 - half, 0.05 + half, 0.02, None))
        page.goto(urljoin(page.url, f"/live/{folder.name}"))
        # the question of the plan is the heading
        expect(page.locator("h1")).to_have_text(f"two: Is {NAME} faster?")
        expect(page.locator(".look")).to_be_visible()
        # the last half of the looks fits: 5 % and 0.3 / 8 around it
        assert page.locator(".look-y span").all_text_contents() == ["+8.8 %", "0", "\u22128.8 %"]
        assert page.locator(".look-x span").all_text_contents() == ["6 pairs", "20 pairs"]
        expect(page.locator("#looks")).to_contain_text("Grey: differences within ±2 %, which count as none.")
        seen_in_both_lights(page)


@pytest.mark.long
@pytest.mark.parametrize("width", [400, 1280])
def test_the_best_so_far_of_a_search_comes_with_its_noise(browser: Browser, tmp_path: Path, width: int) -> None:
    settings = {"shared_buffers": "2100MB", "max_wal_size": "7GB", "random_page_cost": NAME, "geqo": "off"}
    folder = RunFolder.create(tmp_path, sample_manifest())
    with journal(browser, folder, width) as (view, page):
        page.goto(urljoin(page.url, f"/live/{folder.name}"))
        expect(page.locator("#headline")).to_have_text("Getting ready")
        expect(page.locator("#best")).to_be_hidden()
        # the number of trials of a search is not known in advance
        view.event(TrialStarted(1, 1, "the starting configuration", 2.0, later=0, is_open=True))
        expect(page.locator("#headline")).to_have_text("Trial 1: the starting configuration")
        view.event(TrialEnded(Outcome.FINISHED, 1000.0, 2.5))
        expect(page.locator("#trials")).to_have_text("1 trial done")
        view.event(BestSeen(1000.0, 1000.0, "tps", None, 1, {}))
        expect(page.locator("#best-figure")).to_have_text("1,000 tps in 1 trial, the starting configuration")
        expect(page.locator("#best-noise")).to_contain_text("Noise of one trial: not known yet.")
        view.event(BestSeen(1210.0, 1000.0, "tps", 0.021, 3, settings))
        words = "1,210 tps in 3 trials, +21 % from the starting configuration (1,000 tps)"
        expect(page.locator("#best-figure")).to_have_text(words)
        expect(page.locator("#best-noise")).to_contain_text("Noise of one trial: ±2.1 %.")
        assert page.locator("#best-settings dt").all_text_contents() == list(settings)
        assert page.locator("#best-settings dd").all_text_contents() == list(settings.values())
        seen_in_both_lights(page)
        view.event(RunEnded("came to its end", Outcome.FINISHED))
        expect(page.locator("#best")).to_be_hidden()


GAP = """() => {
  const svg = document.querySelector("#strip-wal svg"), width = svg.viewBox.baseVal.width;
  const runs = svg.querySelector("path.t5").getAttribute("d").split("M").slice(1);
  const places = runs.map((run) => run.split("L").map((place) => parseFloat(place) / width));
  return [0.3, 0.5, 0.95].map((share) => places.some((run) => run[0] <= share && share <= run[run.length - 1]));
}"""
"""Whether the line of WAL is drawn at three places of its chart."""


def test_the_page_of_a_server_whose_clock_and_probe_differ(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = RunFolder.create(tmp_path, sample_manifest())
    trials = [GridTrial(1, "0001-a-c2", "a", 2), GridTrial(2, "0002-a-c2", "a", 2)]
    now = int(time.time())
    partial_path(folder.path, trials[1].slug).mkdir(parents=True)
    cpu = {"user": 0.02, "system": 0.01, "irq": 0.01, "iowait": 0.9, "steal": 0.0}
    samples = [
        {"event": "sample", "source": source, "wall_us": at * 1_000_000, "span_us": 1_000_000, "rows": [{"values": of}]}
        # the probe had lost its server for half of a minute
        for at in [*range(now - 60, now - 40), *range(now - 10, now)]
        for source, of in (("cpu", cpu), ("wal_position", {"inserted": 2_000_000}))
    ]
    lines = "".join(f"{json.dumps(each)}\n" for each in samples)
    (partial_path(folder.path, trials[1].slug) / "probe.jsonl").write_text(lines)
    with journal(browser, folder, scheme="dark", trials=trials) as (view, page):
        view.event(TrialStarted(1, 2, "a, 2 clients", 60.0, later=1))
        # of tpch: no throughput
        view.event(TrialEnded(Outcome.FINISHED, None, None, 123.4))
        view.event(TrialStarted(2, 2, "a, 2 clients", 60.0, later=0))
        page.add_init_script("const now = Date.now; Date.now = () => now.call(Date) + 3600_000;")
        page.goto(urljoin(page.url, f"/live/{folder.name}"))
        expect(page.locator("#grid td").first).to_have_text("donetrial 2 of 2")
        expect(page.locator("#left")).to_have_text(re.compile(r"^(1:00|0:5\d)$"))
        expect(page.locator("#strip-cpu-title")).to_have_text("CPU of the host 4 % busy; n = 29 seconds")
        assert page.evaluate(GAP) == [True, False, True]
        page.locator("#strip-cpu svg").hover()
        places = page.eval_on_selector_all(".strip .cur", "all => all.map((each) => Number(each.getAttribute('x1')))")
        # one line at the pointer through all strips
        assert (len(places), len(set(places))) == (6, 1)
        assert places[0] > 0
        page.emulate_media(media="print")
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        monkeypatch.setattr(viewers, "MOST_STREAMS_EACH", 0)
        # browsers do not repeat a request that was refused
        with page.expect_response(lambda answer: answer.url.endswith("/stream")):
            page.reload()
        expect(page.locator("#link")).to_have_text("The server refuses this page: load it again")
