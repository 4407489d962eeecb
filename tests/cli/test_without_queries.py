"""The package without TPC-H: its folder and its two kinds in the registry are all of it."""

import re
import shutil
from pathlib import Path

import pytest

from tests.cli.copied_package import copy_package, pgdyno, python
from tests.cli.test_without_amazon import HELP, IMPORT_ALL

NOT_ABOUT_QUERIES = (
    "test_analyse_compare.py", "test_audit.py", "test_doctor_needs.py", "test_fingerprint.py", "test_golden_runs.py",
    "test_plan_answer.py", "test_plan_extends.py", "test_plan_replay.py", "test_plan_reset.py", "test_plan_show.py",
    "test_plan_sweep.py", "test_plan_workloads.py", "test_prepare_stamp.py", "test_report_analysis.py",
    "test_report_workloads.py", "test_store_folder.py",
)  # fmt: skip
TPCH = """
name = "small"
[target.pg18]
kind = "embedded"
version = "18"
[workload]
name = "tpch"
scale_factor = 0.1
[sweep]
clients = 2
[trial]
repeats = 3
"""


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package, for PYTHONPATH."""
    folder = tmp_path_factory.mktemp("without") / "python"
    package = copy_package(folder)
    shutil.rmtree(package / "workloads" / "queries")
    registry = package / "registry.py"
    entry = re.compile(r'^    "[a-z-]+": WorkloadKind\(\s*"pgdyno\.workloads\.queries\.[^)]*\),\n', re.MULTILINE)
    left, count = entry.subn("", registry.read_text())
    assert count == 2
    registry.write_text(left)
    return folder


def test_every_module_can_be_imported_and_every_command_has_its_help(copied: Path) -> None:
    python(copied, "-c", IMPORT_ALL, str(copied))
    assert int(python(copied, "-c", HELP)) > 20


def test_its_plan_is_not_listed_and_its_keys_are_unknown(copied: Path, tmp_path: Path) -> None:
    listed = pgdyno(copied, "plan", "list")
    assert "\nquick " in listed
    assert "tpch" not in listed
    assert "scale_factor" not in pgdyno(copied, "plan", "schema")
    file = tmp_path / "small.toml"
    file.write_text(TPCH)
    assert "workload.scale_factor: unknown key" in pgdyno(copied, "plan", "check", str(file), code=3)


@pytest.mark.long
def test_unit_tests_not_about_queries_pass(copied: Path) -> None:
    tests = [f"tests/unit/{name}" for name in NOT_ABOUT_QUERIES]
    said = python(copied, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests)
    assert " passed" in said or "100%" in said
