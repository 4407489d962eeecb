"""A real run, watched and stopped through HTTP."""

import io
import re
from contextlib import closing
from pathlib import Path

import httpx2
import pytest
from markupsafe import escape
from pypdf import PdfReader
from rich.cells import cell_len

from pgdyno.commands.support.print_page import print_page
from pgdyno.errors import ExitCode
from pgdyno.records import Outcome
from pgdyno.report.full_report import whole_report
from pgdyno.store import RunData, load_run
from pgdyno.targets import Home
from tests.postgres.live_run import PATIENCE_S, LiveRun, live_run, messages, watched_plan
from tests.postgres.runs import the_run

pytestmark = pytest.mark.long

NAME = "<img src=x onerror=alert(1)>'.sql"
QUERY = "SELECT '<script>alert(2)</script>', \"relname\" FROM pg_class LIMIT 1"
"""A script's name and its text that would be more than text on a page."""


def test_a_run_from_its_beginning_to_its_end(warm_home: Home, tmp_path: Path) -> None:
    # it waits: of transactions of half a millisecond each look could miss every one
    (tmp_path / NAME).write_text(f"{QUERY};\nSELECT pg_sleep(0.005);\n")
    with live_run(warm_home, tmp_path, watched_plan(tmp_path, script=f'tpcb-like", "{NAME}')) as run:
        marked, seconds, classes, grids, baselines, feed = False, 0, set(), [], [], []
        for kind, message in messages(run.url):
            if kind == "over":
                break
            seconds += len(message["seconds"])
            classes |= {name for sample in message["samples"] for name in sample.get("waits", {})}
            feed += [(each["kind"], each["text"]) for each in message["feed"]]
            grids += [message["grid"]] if message["grid"] else []
            baselines += [message["now"]["base"]] if message["now"]["base"] else []
            if not marked and message["seconds"]:
                marked = True
                assert run.ask("mark", "a moment <b>'\"").status_code == 202
                # another one sees all that was before
                whole = next(messages(run.url))
                assert whole[0] == "all"
                assert whole[1]["seconds"]
                # on a machine that is slow the next trial may have begun
                assert whole[1]["now"]["trial"]["n"] in (1, 2)
                refused_asks(run)
        assert run.end() == ExitCode.OK
        # the page that is opened after the run's end
        assert next(messages(run.url))[1]["now"]["end"] == {"how": "came to its end", "outcome": "finished"}
        assert seconds >= 4
        assert classes
        assert ("mark", "a moment <b>'\"") in feed
        assert [text.split()[0] for kind, text in feed if kind == "trial"] == ["1:", "2:"]
        assert [cell["done"] for cell in grids[-1]["cells"]] == [1, 1]
        assert grids[-1]["arms"] == ["a", "b"]
        # the page shows the first target next to the second
        assert {each["of"] for each in baselines} == {"a"}
        assert httpx2.get(f"{run.url.replace('/live/', '/runs/')}/index.html", timeout=PATIENCE_S).status_code == 200
    stored = load_run(the_run(tmp_path))
    assert [event.message for trial in (1, 2) for event in stored.events(trial) if event.kind == "mark"] == [
        "a moment <b>'\""
    ]
    assert not (stored.folder.path / ".control").exists()
    every_form_of_its_report(stored)


def every_form_of_its_report(stored: RunData) -> None:
    """The PDF has the page's words, Markdown has 80 columns, every strip says n, names are text."""
    report = whole_report([stored])
    page = report.html()
    assert "<img" not in page
    assert str(escape(NAME)) in page
    assert str(escape(QUERY)) in page
    printed = " ".join(
        re.sub(r"\s+", " ", each.extract_text()) for each in PdfReader(io.BytesIO(print_page(report.html()))).pages
    )
    for words in ("An interval needs at least two pairs", "Latency by percentile", "Validity", "n = ", QUERY):
        assert words in printed
    assert max(map(cell_len, report.markdown().splitlines())) <= 80


def refused_asks(run: LiveRun) -> None:
    """Requests that come from no page of the server do nothing."""
    for code, headers in (
        (403, {"origin": "http://evil.example"}), (403, {"origin": "null"}), (403, {"origin": ""}),
        (403, {"sec_fetch_site": "cross-site"}), (403, {"x_pgdyno_form": "wrong"}), (421, {"host": "evil.example"}),
    ):  # fmt: skip
        assert run.ask("stop-now", **headers).status_code == code
    assert run.ask("format-disk").status_code == 400
    assert httpx2.get(f"{run.url}/ask", timeout=PATIENCE_S).status_code == 405


def test_stop_after_this_trial(warm_home: Home, tmp_path: Path) -> None:
    # so many trials that not all of them end before the page is asked, however slow the machine is
    with live_run(warm_home, tmp_path, watched_plan(tmp_path, clients="1, 2, 3, 4, 5, 6, 7, 8")) as run:
        with closing(messages(run.url)) as found:
            assert any(message.get("seconds") for _, message in found), "the run ended"
        before = current_trial(run)
        assert run.ask("stop-after").status_code == 202
        after = current_trial(run)
        assert run.end() == ExitCode.STOPPED
        assert run.ask("mark").status_code == 409
    folder = the_run(tmp_path)
    assert {trial.outcome for trial in folder.trials()} == {Outcome.FINISHED}
    assert before <= len(folder.trials()) <= after
    assert folder.manifest.outcome is Outcome.INTERRUPTED
    assert folder.manifest.attempts[-1].ended == "was stopped: requested on the live page"


def current_trial(run: LiveRun) -> int:
    number: int = next(messages(run.url))[1]["now"]["trial"]["n"]
    return number
