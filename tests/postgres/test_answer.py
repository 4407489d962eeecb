"""The answer at the end of whole runs of small plans, and at the top of their reports."""

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from pgdyno.errors import ExitCode
from pgdyno.targets import Home
from tests.postgres.runs import pgdyno, the_run
from tests.present import present
from tests.unit.test_report_html import Page

PLAN = """\
name = "small"
[target.pg18]
kind = "embedded"
version = "18"
settings = { fsync = "off", shared_buffers = "32MB" }
[workload]
scripts = ["select-only"]
scale = 1
"""
ARMS = '[sweep]\nclients = 2\nsettings.jit = ["on", "off"]\n[trial]\nduration = "500ms"\nrepeats = 2\n'
PHASES = """\
[sweep]
clients = 4
[trial]
repeats = 2
[[phase]]
name = "rise"
duration = "1s"
rate = { from = 50, to = 150 }
[[phase]]
name = "hold"
duration = "1s"
rate = 200
"""


def paragraph(text: str) -> Sequence[str]:
    return text.rstrip("\n").rpartition("\n\n")[2].split("\n")


@pytest.mark.long_cases("phases")
@pytest.mark.parametrize(
    ("load", "wanted"),
    [
        (ARMS, r"Inconclusive: jit off vs on by throughput"),
        (PHASES, r"PostgreSQL 18\.\d+ in 2 phases: \d+\S* to \d+\S* transactions a second; p99 .* the highest in "),
    ],
    ids=["arms", "phases"],
)
def test_run_and_show_end_and_the_page_begins_with_the_answer(
    warm_home: Home, tmp_path: Path, load: str, wanted: str
) -> None:
    plan = tmp_path / "small.toml"
    plan.write_text(PLAN + load)
    done = pgdyno(warm_home, tmp_path, "run", str(plan), code=ExitCode.OK)
    last = paragraph(done.stdout)
    # the audit may object to such short trials
    answer = next(line for line in last if not line.startswith("Not valid: "))
    assert re.match(wanted, answer), done.stdout
    assert paragraph(pgdyno(warm_home, tmp_path, "show").stdout) == last
    folder = the_run(tmp_path)
    assert Page((folder.path / "report.html").read_text()).text("h1") == answer
    for trial in folder.trials():
        summary = present(trial.summary)
        assert [phase.name for phase in summary.phases] == (["rise", "hold"] if load == PHASES else [])
        assert sum(phase.succeeded for phase in summary.phases) in (0, summary.succeeded)
