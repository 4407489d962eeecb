"""A run written and read by the store: reports get the same values."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from pgdyno.analyse.summary import summarise
from pgdyno.report.export import to_csv, to_json
from pgdyno.report.full_report import judged_run
from pgdyno.report.report_content import NO_EXTRAS, digest
from pgdyno.report.terminal.run_report import print_report
from pgdyno.store import RunFolder
from pgdyno.store.read_runs import RunData, load_run
from tests.present import present
from tests.unit.events_sample import SampleError, sample_events
from tests.unit.report_sample import render_html, to_markdown
from tests.unit.store_sample import SETTINGS, sample_manifest, sample_record


@pytest.fixture
def run(tmp_path: Path) -> RunData:
    """Two clients' points of two scripts, two repeats; errors in the last trial."""
    folder = RunFolder.create(tmp_path, sample_manifest(trials_planned=4))
    number = 0
    for repeat in (1, 2):
        for clients, tps in ((1, 400), (4, 1200)):
            number += 1
            errors = [SampleError(1, count=3)] if number == 4 else []
            events = sample_events(clients, 4, tps, 900, 2, seed=number, errors=errors, warmup_s=1)
            record = sample_record(number, events, repeat=repeat)
            folder.begin_trial(record.slug).commit(record, events=events, settings=SETTINGS)
    return load_run(folder.path)


def test_points_are_summarised_from_disk(run: RunData) -> None:
    first, second = summarise(run)
    assert (first.clients, second.clients) == (1, 4)
    assert second.tps is not None
    assert second.tps.mean == pytest.approx(1200, rel=0.05)
    assert second.histogram is not None
    succeeded = [present(trial.summary.succeeded) for trial in run.trials if trial.summary is not None]
    # both scripts, both repeats, the measured part only
    assert second.histogram.count == succeeded[1] + succeeded[3]
    assert len(second.seconds) == 4
    assert second.losses.failed == 3


def test_every_form_can_be_made_of_it(run: RunData) -> None:
    page = render_html(run, "here")
    assert "pg18 reaches 1,2" in page
    assert "UPDATE pgbench_accounts" in page
    assert "warm-up, 1 s" in page
    console = Console(file=io.StringIO(), width=80, force_terminal=True)
    of, extras = judged_run(run)
    print_report(of, console, extras)
    assert isinstance(console.file, io.StringIO)
    assert "Errors: 3 failed" in console.file.getvalue()
    assert len(to_csv(run).splitlines()) == 5
    assert '"peak_clients": 4' in to_json(digest(run), NO_EXTRAS)
    assert "|clients|" in to_markdown(run)
