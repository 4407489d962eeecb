"""GitHub's workflows and action agree with the Makefile, the fuzz targets and the commands of pgdyno."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import typer
import yaml

from pgdyno.cli import app
from tests import commands_page

ROOT = Path(__file__).parents[2]


def document(name: str) -> dict[str, Any]:
    loaded = yaml.safe_load((ROOT / name).read_text())
    assert isinstance(loaded, dict)
    return loaded


def test_ci_fuzzes_every_target() -> None:
    makefile = (ROOT / "Makefile").read_text()
    named = {
        f"{variable}={target}"
        for variable in ("FUZZ_TARGETS", "FUZZ_PYTHON")
        for target in re.findall(rf"^{variable} \?= (.+)$", makefile, re.MULTILINE)[-1].split()
    }
    functions = re.findall(r"^def test_(\w+)\(", (ROOT / "tests/fuzz/test_fuzz.py").read_text(), re.MULTILINE)
    programs = {path.stem for path in (ROOT / "fuzz/fuzz_targets").glob("*.rs")}
    assert named == {f"FUZZ_PYTHON={each}" for each in functions} | {f"FUZZ_TARGETS={each}" for each in programs}
    assert set(document(".github/workflows/fuzz.yml")["jobs"]["fuzz"]["strategy"]["matrix"]["target"]) == named


def test_each_target_runs_two_minutes_in_ci_and_an_hour_each_night() -> None:
    for name, seconds in (("ci", 120), ("nightly", 3600)):
        job = document(f".github/workflows/{name}.yml")["jobs"]["fuzz"]
        assert job == {"uses": "./.github/workflows/fuzz.yml", "with": {"seconds": seconds}}


def test_make_targets_of_the_workflows_are_there() -> None:
    known = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    texts = [path.read_text() for path in (ROOT / ".github").rglob("*.yml")] + [(ROOT / "Dockerfile").read_text()]
    called = {
        target for text in texts for target in re.findall(r"(?:run:|RUN|^ +)\s*make ([a-z-]+)", text, re.MULTILINE)
    }
    assert called >= {"dist", "dist-check", "fuzz", "wheels", "lint-workflows"}
    assert called <= known


def test_the_action_calls_pgdyno_as_it_is() -> None:
    action = document("action.yml")
    steps = action["runs"]["steps"]
    text = "\n".join(step.get("run", "") for step in steps)
    known = {
        words[-1]: {option for each in command.params for option in each.opts}
        for words, command in commands_page.commands(typer.main.get_command(app), ("pgdyno",))
    }
    calls = re.findall(r"^\s*pgdyno ((?:.*\\\n)*.*)$", text, re.MULTILINE)
    assert [call.split()[0] for call in calls] == ["run", "report", "gate"]
    for call in calls:
        assert set(re.findall(r"--[a-z-]+", call)) <= known[call.split()[0]]
    used = set(re.findall(r"inputs\.([a-z-]+)", (ROOT / "action.yml").read_text()))
    assert used == set(action["inputs"])
