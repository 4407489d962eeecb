"""GitHub's workflows and action agree with the Makefile, the fuzz targets and the commands of pgdyno."""

import os
import re
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

import commands_page
from pgdyno.cli import app
from tests.action_steps import PullRequest

ROOT = Path(__file__).parents[2]

PGDYNO = """\
#!/bin/bash
echo "$@" >> calls.txt
case "$1" in
  run) mkdir -p "$4"; exit "$RUN_CODE" ;;
  report) echo page > "${@: -1}" ;;
  gate) if [ "$GATE_CODE" != 2 ]; then echo "### verdict $GATE_CODE" > "${@: -3:1}"; fi; exit "$GATE_CODE" ;;
esac
"""
"""A pgdyno that writes what action.yml reads, and ends with the codes that the environment names."""


def document(name: str) -> dict[str, Any]:
    loaded = yaml.safe_load((ROOT / name).read_text())
    assert isinstance(loaded, dict)
    return loaded


def test_ci_fuzzes_every_target_and_a_pre_release_reaches_neither_pypi_nor_latest() -> None:
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
    jobs = document(".github/workflows/release.yml")["jobs"]
    assert jobs["pypi"]["if"] == "${{ !contains(github.ref_name, '-') }}"
    texts = [str(step) for job in jobs.values() for step in job["steps"] if "latest" in str(step)]
    assert len(texts) == 1
    assert '[[ "$version" != *-* ]]' in texts[0]
    assert "setup-qemu" not in str(jobs)


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


class Pull(PullRequest):
    """A pull request on a runner with `PGDYNO`."""

    def gate(self, run: int = 0, gate: int = 0, /, **inputs: str) -> int:
        """Executes the action with these exit codes of `pgdyno run` and `pgdyno gate`; returns its own."""
        self.environment = {**self.environment, "RUN_CODE": str(run), "GATE_CODE": str(gate)}
        return self.execute(**{"plan": "plan.toml", **inputs})


@pytest.fixture
def pull_request(tmp_path: Path) -> Pull:
    program = tmp_path / "bin" / "pgdyno"
    program.parent.mkdir()
    program.write_text(PGDYNO)
    program.chmod(0o755)
    return Pull(tmp_path, {"PATH": f"{program.parent}:{os.environ['PATH']}"})


def test_the_comment_of_a_gate_is_replaced_and_no_other(pull_request: Pull) -> None:
    others = ["coverage: 90 %", "<!-- pgdyno gate reads -->\nfrom a person"]
    pull_request.comment("github-actions[bot]", others[0])
    pull_request.comment("somebody", others[1])
    for name, code in (("reads", 0), ("writes", 0), ("reads", 10)):
        assert pull_request.gate(0, code, name=name) == code, pull_request.output
    again = "```sh\npgdyno run plan.toml && pgdyno gate latest --by target --max-regression 3%\n```"
    verdicts = [
        f"<!-- pgdyno gate {name} -->\n### verdict {code}\n\nGate: {name}. To repeat it:\n\n{again}\n"
        for name, code in (("reads", 10), ("writes", 0))
    ]
    assert pull_request.comments() == [*others, *verdicts]
    assert pull_request.summary == verdicts[0]


def test_gates_of_different_names_share_nothing_and_the_guide_gives_the_inputs() -> None:
    steps = document("action.yml")["runs"]["steps"]
    (kept,) = (step["with"] for step in steps if step.get("uses", "").startswith("actions/upload-artifact@"))
    for text in (kept["name"], *re.findall(r"\S.*", kept["path"])):
        assert "${{ inputs.name }}" in text
    # the guide's workflow gives the action its inputs
    guide = (ROOT / "docs/guides/github-actions.md").read_text()
    (workflow,) = re.findall(r"```yaml\n(.*?)```", guide, re.DOTALL)
    assert len(workflow.splitlines()) <= 12
    given = yaml.safe_load(workflow)["jobs"]["gate"]["steps"][-1]["with"]
    inputs = document("action.yml")["inputs"]
    assert given.keys() <= inputs.keys()
    assert {name for name, each in inputs.items() if each.get("required")} | {"package"} <= given.keys()


def test_after_failed_trials_there_is_a_verdict_and_the_job_fails(pull_request: Pull, tmp_path: Path) -> None:
    for gate, code in ((0, 5), (11, 5), (10, 10), (12, 12)):
        found = pull_request.gate(5, gate, allow_inconclusive="true")
        assert (found, pull_request.outputs["gate.outputs.code"]) == (code, str(gate)), pull_request.output
        assert (tmp_path / "pgdyno-gate/report.html").exists()
        assert f"### verdict {gate}\n" in pull_request.comments()[0]


@pytest.mark.parametrize("code", [3, 4, 143])
def test_a_run_without_trials_is_not_judged(pull_request: Pull, code: int, tmp_path: Path) -> None:
    assert pull_request.gate(code) == code
    assert [line.split()[0] for line in (tmp_path / "calls.txt").read_text().splitlines()] == ["run"]
    assert pull_request.comments() == []


def test_the_verdict_of_an_earlier_gate_is_not_shown_again(pull_request: Pull) -> None:
    assert pull_request.gate() == 0
    assert pull_request.gate(0, 2, by="nothing") == 2
    (comment,) = pull_request.comments()
    assert comment.splitlines()[1] == "### pgdyno gate: no verdict (exit code 2, see the log of the job)"
    assert pull_request.summary == comment


def test_the_gate_decides_whether_inconclusive_passes(pull_request: Pull, tmp_path: Path) -> None:
    assert [pull_request.gate(0, 11), pull_request.gate(0, 11, allow_inconclusive="true")] == [11, 11]
    gates = [line for line in (tmp_path / "calls.txt").read_text().splitlines() if line.startswith("gate")]
    assert ["--allow-inconclusive" in line for line in gates] == [False, True]


def test_promises_and_the_control_reach_the_run_and_the_gate(pull_request: Pull, tmp_path: Path) -> None:
    inputs = {"require": "p99 < 20ms\n\n  tps >= 500\n", "control": "true", "arguments": "--budget 5m"}
    assert pull_request.gate(plan="my plan.toml", metric="p50", **inputs) == 0, pull_request.output
    ran, _, judged = (tmp_path / "calls.txt").read_text().splitlines()
    assert ran.endswith("--control --budget 5m")
    options = "--by target --max-regression 3% --metric p50 --require p99 < 20ms --require   tps >= 500 --md"
    assert options in judged
    (comment,) = pull_request.comments()
    repeated = r"pgdyno run my\ plan.toml --control --budget 5m && pgdyno gate latest --by target --max-regression 3%"
    assert repeated in comment
    assert r"--require p99\ \<\ 20ms" in comment


def test_no_package_of_that_name_is_installed_by_default(pull_request: Pull, tmp_path: Path) -> None:
    """Until the first release, whoever registers the name on PyPI would run code with the token of users' jobs."""
    (tmp_path / "bin" / "pgdyno").unlink()
    pull_request.environment = {**pull_request.environment, "PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin"}
    assert pull_request.gate() == 2
    said = "::error::pgdyno is not installed, and the input package does not say what pip installs"
    assert said in pull_request.output
    assert not (tmp_path / "pgdyno").exists()


@pytest.mark.parametrize("name", ["", "a b", "../a", '"$(true)"'])
def test_a_name_that_is_no_file_name_is_refused(pull_request: Pull, name: str, tmp_path: Path) -> None:
    assert pull_request.gate(name=name) == 2
    assert "::error::the input name" in pull_request.output
    assert not (tmp_path / "calls.txt").exists()
