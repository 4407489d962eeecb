"""The steps of action.yml, executed as a runner would, for a simulated pull request."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import yaml

from pgdyno.targets import Home
from tests.forked import PGDYNO
from tests.postgres.runs import environment

ROOT = Path(__file__).parents[2]
PLAN = """\
name = "gate"
[target.before]
kind = "embedded"
version = "18"
[target.after]
kind = "embedded"
version = "18"
settings = { work_mem = "8MB" }
[workload]
scripts = ["select-only"]
scale = 1
[sweep]
clients = [2]
[trial]
warmup = "0s"
duration = "1s"
repeats = 1
"""


def test_a_pull_request_gets_the_verdict(home: Home, tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text(PLAN)
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    # GitHub's client, which writes down what it is called with
    (bin_folder / "gh").write_text(
        f'#!/bin/bash\necho "$@" > {tmp_path}/gh.txt\ncp "${{@: -1}}" {tmp_path}/comment.md\n'
    )
    (bin_folder / "gh").chmod(0o755)
    files = {name: tmp_path / name.lower() for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY", "GITHUB_PATH")}
    base = environment(home) | {name: str(path) for name, path in files.items()}
    base |= {"RUNNER_TEMP": str(tmp_path), "GITHUB_REPOSITORY": "owner/name"}
    base["PATH"] = f"{bin_folder}:{PGDYNO.parent}:{os.environ['PATH']}"
    values = {"inputs.plan": "plan.toml", "inputs.by": "target", "inputs.base": "before", "inputs.metric": ""}
    values |= {"inputs.max-regression": "3%", "inputs.arguments": "--no-preflight", "inputs.package": "pgdyno"}
    values |= {"inputs.allow-inconclusive": "true", "github.token": "t", "github.event.pull_request.number": "7"}
    said = ""
    for step in yaml.safe_load((ROOT / "action.yml").read_text())["runs"]["steps"]:
        if "run" not in step:
            continue
        if files["GITHUB_OUTPUT"].exists():
            values["steps.gate.outputs.code"] = files["GITHUB_OUTPUT"].read_text().split("code=")[1].strip()
        given = {
            name: re.sub(r"\$\{\{ (.+?) \}\}", lambda found: values[found[1]], text)
            for name, text in step.get("env", {}).items()
        }
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            cwd=tmp_path, env={**base, **given}, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, (step["name"], done.stdout, done.stderr)
        said = done.stdout
    # one pair decides nothing
    assert values["steps.gate.outputs.code"] == "11"
    assert said.strip() == "::warning::inconclusive: these pairs cannot decide"
    assert (tmp_path / "gh.txt").read_text().startswith("pr comment 7 --repo owner/name --edit-last --create-if-none")
    assert "after" in (tmp_path / "comment.md").read_text()
    assert files["GITHUB_STEP_SUMMARY"].read_text() == (tmp_path / "comment.md").read_text()
    assert (tmp_path / "pgdyno-report.html").stat().st_size > 10_000
