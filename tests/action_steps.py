"""Executes the steps of action.yml as GitHub's runner does, with a client of GitHub that keeps comments in a file."""

import json
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.run_program import run_program

ACTION = Path(__file__).parents[1] / "action.yml"
PULL_REQUEST = {"github.token": "t", "github.event.pull_request.number": "7"}
GH = '''\
#!{python}
"""Understands what action.yml asks: list the comments of a pull request, change one, and add one."""
import json, re, sys
from pathlib import Path

kept = Path({comments!r})
comments = json.loads(kept.read_text())
command, *words = sys.argv[1:]
assert command == "api", sys.argv
if words[0] == "--paginate":
    (_, path, option, query) = words
    assert (path, option) == ("repos/owner/name/issues/7/comments?per_page=100", "--jq"), words
    author, start = r'\\.user\\.login == "(.+?)"', r'\\(\\.body \\| startswith\\("(.+?)"\\)\\)'
    filters = re.fullmatch(rf"\\.\\[\\] \\| select\\({{author}} and {{start}}\\) \\| \\.id", query)
    assert filters, query
    login, start = filters.groups()
    for each in comments:
        if each["user"]["login"] == login and each["body"].startswith(start):
            print(each["id"])
else:
    (silent, option, method, path, kind, value) = words
    assert (silent, option, kind) == ("--silent", "--method", "--field"), words
    body = Path(value.removeprefix("body=@")).read_text()
    if method == "POST":
        assert path == "repos/owner/name/issues/7/comments", path
        comments.append({{"id": len(comments) + 1, "user": {{"login": "github-actions[bot]"}}, "body": body}})
    else:
        assert method == "PATCH", method
        (changed,) = (each for each in comments if path == f"repos/owner/name/issues/comments/{{each['id']}}")
        changed["body"] = body
    kept.write_text(json.dumps(comments))
'''


@dataclass
class PullRequest:
    """The pull request owner/name#7, with the folder of its workflow's job."""

    folder: Path
    environment: Mapping[str, str]
    summary: str = ""
    output: str = ""
    outputs: dict[str, str] = field(default_factory=dict)
    """`gate.outputs.code` and so on, of the last execution."""

    def __post_init__(self) -> None:
        """Puts the client of GitHub into `bin`, which must be on the environment's PATH."""
        (self.folder / "bin").mkdir(exist_ok=True)
        self._comments.write_text("[]")
        program = self.folder / "bin" / "gh"
        program.write_text(GH.format(python=sys.executable, comments=str(self._comments)))
        program.chmod(0o755)

    @property
    def _comments(self) -> Path:
        return self.folder / "comments.json"

    def comments(self) -> list[str]:
        return [each["body"] for each in json.loads(self._comments.read_text())]

    def comment(self, login: str, body: str) -> None:
        found = json.loads(self._comments.read_text())
        found.append({"id": len(found) + 1, "user": {"login": login}, "body": body})
        self._comments.write_text(json.dumps(found))

    def execute(self, **inputs: str) -> int:
        """Executes the steps until one fails; returns the exit code of the job."""
        action: dict[str, Any] = yaml.safe_load(ACTION.read_text())
        given = {name.replace("_", "-"): text for name, text in inputs.items()}
        assert given.keys() <= action["inputs"].keys()
        values = {f"inputs.{name}": given.get(name, each.get("default")) for name, each in action["inputs"].items()}
        values |= PULL_REQUEST
        self.summary, self.output, self.outputs = "", "", {}
        for step in action["runs"]["steps"]:
            if "run" not in step:
                continue
            code = self._step(step, values | {f"steps.{name}": text for name, text in self.outputs.items()})
            if code and not step.get("continue-on-error"):
                return code
        return 0

    def _step(self, step: Mapping[str, Any], values: Mapping[str, str]) -> int:
        files = {name: self.folder / name.lower() for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY", "GITHUB_PATH")}
        for file in files.values():
            file.write_text("")
        variables = {
            name: re.sub(r"\$\{\{ (.+?) \}\}", lambda found: values[found[1]], text)
            for name, text in step.get("env", {}).items()
        }
        of_the_runner = {"RUNNER_TEMP": str(self.folder), "GITHUB_REPOSITORY": "owner/name"}
        of_the_runner |= {name: str(path) for name, path in files.items()}
        done = run_program(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            env={**self.environment, **of_the_runner, **variables},
            cwd=self.folder,
        )
        self.output += done.stdout + done.stderr
        self.summary += files["GITHUB_STEP_SUMMARY"].read_text()
        for line in files["GITHUB_OUTPUT"].read_text().splitlines():
            name, _, text = line.partition("=")
            self.outputs[f"{step['id']}.outputs.{name}"] = text
        return done.returncode
