"""Commands load what they need: `pgdyno --version` does not load a numerical library."""

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

from pgdyno.cli import app
from pgdyno.commands.support.kept_summary import keep_summary
from pgdyno.report.full_report import whole_report
from pgdyno.store import load_run

pytestmark = pytest.mark.slow

HEAVY = {
    "asyncio", "asyncssh", "duckdb", "hdrh", "jinja2", "numpy", "prometheus_client", "psycopg", "ruptures", "scipy",
    "starlette", "uvicorn",
}  # fmt: skip
"""Libraries that take longer to load than pgdyno itself."""
AFTER = """\
import atexit, sys
atexit.register(lambda: print(*sys.modules))
{}"""
TYPED = """\
sys.argv = {}
from pgdyno.__main__ import main
main()"""


def modules_loaded_by(code: str) -> set[str]:
    """Returns the packages and modules that `code` loads, without its own output."""
    done = subprocess.run([sys.executable, "-c", AFTER.format(code)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = set(done.stdout.splitlines()[-1].split())
    assert "pgdyno" in found
    return found


@pytest.mark.parametrize("argument", ["--version", "--help"])
def test_commands_without_a_plan_load_no_models(argument: str) -> None:
    assert (
        modules_loaded_by(TYPED.format(["pgdyno", argument])) & (HEAVY | {"json", "pydantic", "rich", "tomllib"})
        == set()
    )


def test_the_list_of_commands_needs_no_options() -> None:
    of: Any = typer.main.get_command(app)
    assert len(of.commands) > 20
    assert [each.name for each in of.commands.values() if each.params or getattr(each, "commands", None)] == []


def test_a_plan_is_checked_without_servers_and_figures() -> None:
    found = modules_loaded_by(TYPED.format(["pgdyno", "plan", "check", "quick"]))
    unused = {"importlib.readers", "pgdyno.published", "pgdyno.plan.time_budget.budget", "rich"}
    assert found & (HEAVY | unused) == set()
    # of the kinds of targets and workloads, those that the plan names
    schemas = {name for name in found if re.fullmatch(r"pgdyno\.(targets|workloads)\..*schema", name)}
    assert schemas == {"pgdyno.targets.embedded.schema", "pgdyno.workloads.pgbench.schema"}
    # each class of a record takes half a millisecond: a plan has points and prices
    records = {name.removeprefix("pgdyno.records.") for name in found if name.startswith("pgdyno.records.")}
    assert records == {"base", "point", "price", "promise", "secret_values"}


def test_runs_here_stored_ones_and_lists_load_what_they_need(tmp_path: Path) -> None:
    assert modules_loaded_by("import pgdyno.commands.support.carry_out") & {"asyncssh", "scipy", "starlette"} == set()
    code = "import pgdyno.report.full_report, pgdyno.report.analysis, pgdyno.commands.comparison.print_comparisons"
    assert modules_loaded_by(code) & {"asyncssh", "psycopg", "scipy", "starlette"} == set()
    shutil.copytree(Path(__file__).parents[1] / "golden" / "run-format-1", tmp_path / "run-format-1")
    found = modules_loaded_by(TYPED.format(["pgdyno", "list", "--runs", str(tmp_path)]))
    assert found & (HEAVY | {"pydantic", "pgdyno.records.base", "pgdyno.store.object_storage.objects"}) == set()


def test_a_run_is_shown_from_its_summary_without_its_tables(tmp_path: Path) -> None:
    run = tmp_path / "run-format-1"
    shutil.copytree(Path(__file__).parents[1] / "golden" / "run-format-1", run)
    data = load_run(run)
    report = whole_report([data])
    keep_summary(data, report.draft.of, report.draft.extras)
    words = ["pgdyno", "show", "run-format-1", "--runs", str(tmp_path)]
    code = f"import sys; {TYPED.format(words)}"
    kept = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert modules_loaded_by(TYPED.format(words)) & (HEAVY | {"pydantic"}) == set()
    # a record that changes makes it stale
    record = next(run.glob("trials/*/trial.json"))
    record.write_text(record.read_text() + " ")
    assert modules_loaded_by(TYPED.format(words)) >= {"duckdb", "numpy"}
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == kept
    # nor does a damaged one count
    (run / "summary.json").write_text('{"version": 1}')
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == kept
