"""The package without a part that has a folder of its own: everything else works, and the rest gives the reason."""

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.copied_package import copy_package, pgdyno, python
from tests.unit.plan_sample import small_plan

OTHER_SUBJECTS = (
    "test_analyse_compare.py", "test_analyse_price.py", "test_audit.py", "test_audit_special_cases.py",
    "test_doctor_needs.py", "test_fingerprint.py", "test_golden_runs.py", "test_import_tools.py",
    "test_plan_extends.py", "test_plan_output.py", "test_plan_problems.py", "test_plan_sections.py",
    "test_plan_sweep.py", "test_plan_workloads.py", "test_prepare.py", "test_report_analysis.py",
    "test_report_workloads.py", "test_run_events.py", "test_scenario_plan.py", "test_start_up.py",
    "test_store_folder.py", "test_target_processes.py", "test_target_settings.py",
)  # fmt: skip
RENTED = """
name = "far"
[target.rds]
kind = "rds"
version = "18"
instance = "db.m7g.large"
[workload]
scripts = ["select-only"]
[sweep]
clients = 1
[trial]
duration = "1s"
"""
IMPORT_ALL = """
import pkgutil, sys, pgdyno
assert pgdyno.__file__.startswith(sys.argv[1]), pgdyno.__file__
for module in pkgutil.walk_packages(pgdyno.__path__, "pgdyno."):
    __import__(module.name)
print(*sorted({name.partition(".")[0] for name in sys.modules} & {"boto3", "botocore"}))
"""
HELP = """
import contextlib, io
import typer
from pgdyno.cli import app
from commands_page import commands
found = [words for words, _ in commands(typer.main.get_command(app), ("pgdyno",))]
for words in found:
    with contextlib.redirect_stdout(io.StringIO()) as said, contextlib.suppress(SystemExit):
        app([*words[1:], "--help"], prog_name="pgdyno")
    assert "Usage: " + " ".join(words) in said.getvalue(), words
print(len(found))
"""
CHECK = """
import sys
from pgdyno.cli import app
at = sys.argv.index("--")
for plan in sys.argv[1:at]:
    on = ["--on", "embedded"] if plan in sys.argv[at:] else []
    app(["plan", "check", plan, *on], prog_name="pgdyno", standalone_mode=False)
"""
TPCH = small_plan('name = "tpch"\nscale_factor = 0.1', "clients = 2", "repeats = 3")


def remove_amazon(package: Path) -> None:
    shutil.rmtree(package / "targets" / "aws")


def remove_queries(package: Path) -> None:
    """TPC-H: its folder and its two kinds in the registry are all of it."""
    shutil.rmtree(package / "workloads" / "queries")
    registry = package / "registry.py"
    entry = re.compile(r'^    "[a-z-]+": WorkloadKind\(\s*"pgdyno\.workloads\.queries\.[^)]*\),\n', re.MULTILINE)
    left, count = entry.subn("", registry.read_text())
    assert count == 2
    registry.write_text(left)


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package without both, for PYTHONPATH."""
    folder = tmp_path_factory.mktemp("without") / "python"
    package = copy_package(folder)
    remove_amazon(package)
    remove_queries(package)
    return folder


def test_every_module_can_be_imported_and_every_command_has_its_help(copied: Path) -> None:
    assert python(copied, "-c", IMPORT_ALL, str(copied)).strip() == ""
    assert int(python(copied, "-c", HELP)) > 20


def test_the_catalogue_is_listed_and_checked(copied: Path) -> None:
    plans = sorted((copied / "pgdyno" / "plans").glob("*.toml"))
    listed = pgdyno(copied, "plan", "list")
    assert [plan.stem for plan in plans if plan.stem not in listed] == []
    assert "\nquick " in listed
    assert "tpch" not in listed
    # those that rent their servers are checked with another target
    renting = [plan.stem for plan in plans if re.search(r'^kind = "(rds|ec2|aurora)"', plan.read_text(), re.MULTILINE)]
    said = python(copied, "-c", CHECK, *(plan.stem for plan in plans), "--", *renting)
    assert said.count("the plan is valid") == len(plans)


def test_what_is_missing_is_refused_with_what_is_there(copied: Path, tmp_path: Path) -> None:
    schema = pgdyno(copied, "plan", "schema")
    assert '"EmbeddedTarget"' in schema
    assert re.findall("RdsTarget|Ec2|scale_factor", schema) == []
    file = tmp_path / "far.toml"
    file.write_text(RENTED)
    said = " ".join(pgdyno(copied, "plan", "check", str(file), code=3).split())
    assert 'far.toml:4: target.rds.kind: the package for targets of kind "rds" is not installed' in said
    assert 'available: "embedded", "local", "build", "dsn" or "pool"' in said
    assert "no provider needs permissions" in pgdyno(copied, "target", "policy", code=4)
    assert "pgdyno cannot rent targets of kind rds" in pgdyno(copied, "target", "selftest", code=4)
    file.write_text(TPCH)
    assert "workload.scale_factor: unknown key" in pgdyno(copied, "plan", "check", str(file), code=3)


@pytest.mark.long
@pytest.mark.parametrize(
    ("remove", "those"), [(remove_amazon, "not own_way and not without_a_protocol"), (remove_queries, "not tpch")]
)
def test_unit_tests_of_other_subjects_pass(remove: Callable[[Path], None], those: str, tmp_path: Path) -> None:
    remove(copy_package(tmp_path / "python"))
    tests = [f"tests/unit/{name}" for name in OTHER_SUBJECTS]
    said = python(tmp_path / "python", "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", those, *tests)
    assert " passed" in said or "100%" in said
