"""The steps of action.yml, executed as a runner would, for a simulated pull request."""

import os
from pathlib import Path

import pytest

from pgdyno.targets import Home
from tests.action_steps import PullRequest
from tests.forked import PGDYNO
from tests.postgres.runs import environment, fast_plan

PLAN = fast_plan(
    'scripts = ["select-only"]\nscale = 1',
    "clients = [2]",
    'warmup = "0s"\nduration = "1s"\nrepeats = 1',
    targets=("before", "after"),
)


@pytest.mark.long
def test_a_pull_request_gets_the_verdict(home: Home, tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text(PLAN)
    path = {"PATH": f"{tmp_path / 'bin'}:{PGDYNO.parent}:{os.environ['PATH']}"}
    pull_request = PullRequest(tmp_path, environment(home) | path)
    code = pull_request.execute(plan="plan.toml", base="before", arguments="--no-preflight", allow_inconclusive="true")
    # one pair decides nothing, and finds nothing
    assert (code, pull_request.outputs["gate.outputs.code"]) == (11, "11"), pull_request.output
    (comment,) = pull_request.comments()
    assert comment.startswith("<!-- pgdyno gate small -->\n### pgdyno gate: inconclusive\n")
    assert "after" in comment
    assert pull_request.summary == comment
    assert (tmp_path / "pgdyno-gate/report.html").stat().st_size > 10_000
    assert (tmp_path / "pgdyno-gate/gate.xml").exists()
