"""The output of commands with --json matches `pgdyno/json-output.schema.json`."""

from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from commands_page import commands
from pgdyno.cli import app
from tests.json_schema import SCHEMA, validated

ROOT = Path(__file__).parents[2]
RUN = str(ROOT / "tests" / "golden" / "run-format-1")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("plan-check", ["plan", "check", "quick"]),
        ("plan-show", ["plan", "show", "quick"]),
        ("plan-cost", ["plan", "cost", "quick"]),
        ("list", ["list", "--runs", str(ROOT / "tests" / "golden")]),
        ("show", ["show", RUN]),
        ("analyse", ["analyse", RUN]),
        ("audit", ["audit", RUN]),
        ("history", ["history", str(ROOT / "tests" / "golden")]),
    ],
)
def test_output_matches_its_schema(name: str, words: list[str]) -> None:
    validated(name, CliRunner().invoke(app, [*words, "--json"]).stdout)


def test_every_command_with_json_has_a_schema() -> None:
    of = typer.main.get_command(app)
    having = {
        "-".join(words) for words, command in commands(of, ()) if any("--json" in each.opts for each in command.params)
    }
    assert having <= set(SCHEMA["$defs"])
