"""[reset] of a plan: defaults, errors with their lines, and descriptions."""

from pathlib import Path

import pytest

import pgdyno.plan.checks.reset
from pgdyno.errors import PlanError
from pgdyno.plan.checks.reset import check_found
from pgdyno.plan.output.plan_output import around_each_trial, before_each_trial
from tests.unit.plan_sample import load, loaded, problems, refuse, small_plan, the_problem

PLAN = small_plan(old="14", new="18.1") + "[reset]\n"
NEW = PLAN.replace('"14"', '"18"')
FIRST = PLAN.count("\n") + 1
"""Line of the first key of [reset]."""
NO_DATASET = PLAN.replace('scripts = ["select-only"]', 'scripts = ["x.sql"]\ndataset = "none"')


@pytest.fixture(autouse=True)
def script(tmp_path: Path) -> None:
    (tmp_path / "x.sql").write_text("SELECT 1;\n")


def programs(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).write_text("")
        (folder / name).chmod(0o755)


def test_without_reset_a_plan_vacuums_as_pgbench_does(tmp_path: Path) -> None:
    nothing = dict.fromkeys(("strategy", "file_copy_method", "snapshot"))
    assert load(tmp_path, PLAN).as_resolved()["reset"] == {"method": "vacuum", **nothing, "consistency": "auto"} | {
        "checkpoint": True, "restart": False, "drop_cache": "none", "prewarm": "none", "analyze": False,
        "statistics": False,
    }  # fmt: skip


def test_impossible_resets_are_refused_with_their_line(tmp_path: Path) -> None:
    for lines, field, line, said, hint in (
        # lines of [reset], field, line counted from its first key, part of the message, part of the hint
        ('method = "templat"', "method", 0, '"template", "snapshot" or "reload", not "templat"', 'mean "template"?'),
        ("methd = 1", "methd", 0, "unknown key", "did you mean method?"),
        ('strategy = "wal_log"', "strategy", 0, 'is valid only with method = "template"', "remove it"),
        ('method = "snapshot"\nstrategy = "wal_log"', "strategy", 1, "is valid only with", "remove it"),
        ('method = "template"\nstrategy = "wal_log"', "strategy", 1, "needs PostgreSQL 15 or later", "later version"),
        ('snapshot = "copy"', "snapshot", 0, 'is valid only with method = "snapshot"', "remove it"),
        ('method = "snapshot"\nsnapshot = "lvm"', "snapshot", 1, "LVM restores a whole volume", None),
        ('method = "snapshot"\nsnapshot = "btrfss"', "snapshot", 1, '"zfs", not "btrfss"', 'mean "btrfs"?'),
        ("prewarm = true", "prewarm", 0, '"none", "pg_prewarm" or "read", not true', None),
        ('checkpoint = "yes"', "checkpoint", 0, "must be true or false", None),
    ):
        refuse(tmp_path, PLAN + lines, f"reset.{field}", said, hint or "", FIRST + line)


def test_all_problems_are_reported_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pgdyno.plan.checks.reset, "DROP_CACHES", tmp_path / "not there")
    text = PLAN + 'method = "template"\nstrategy = "file_copy"\nfile_copy_method = "clone"\ndrop_cache = "machine"\n'
    found = problems(tmp_path, text)
    assert [(problem.path, problem.line) for problem in found] == [
        ("reset.strategy", FIRST + 1),
        ("reset.file_copy_method", FIRST + 2),
        ("reset.drop_cache", FIRST + 3),
    ]
    assert "target old (14)" in found[0].message
    assert "needs PostgreSQL 18 or later" in found[1].message
    assert found[2].hint == 'run as root, or set drop_cache = "files"'
    assert the_problem(tmp_path, PLAN, "reset.strategy=wal_log").hint == "given by --set; remove it"


def test_a_method_needs_what_it_restores(tmp_path: Path) -> None:
    text = NEW + 'method = "template"\nfile_copy_method = "clone"'
    assert the_problem(tmp_path, text).message == 'is valid only with strategy = "file_copy"'
    for method in ("template", "snapshot", "reload"):
        found = the_problem(tmp_path, NO_DATASET + f'method = "{method}"')
        assert found.message == f'"{method}" restores a dataset, and the workload has none'
    assert the_problem(tmp_path, NO_DATASET + 'consistency = "full"').path == "reset.consistency"


def test_versions_that_are_known_only_when_the_run_starts(tmp_path: Path) -> None:
    programs(tmp_path, "initdb", "postgres")
    text = PLAN.replace('kind = "embedded"\nversion = "14"', f'kind = "local"\nbin = "{tmp_path}"')
    read = loaded(tmp_path, text + 'method = "template"\nstrategy = "wal_log"\n')
    check_found(read.plan, {"old": 15, "new": 18}, {}, read.source, read.document, read.folder)
    with pytest.raises(PlanError) as caught:
        check_found(read.plan, {"old": 13, "new": 18}, {}, read.source, read.document, read.folder)
    (found,) = caught.value.problems
    assert (found.path, found.line) == ("reset.strategy", FIRST + 1)
    assert "target old (13)" in found.message


MEMORY = "/dev/shm"
ELSEWHERE = PLAN.replace('version = "18.1"', f'version = "18.1"\nenvironment = {{ data = "{MEMORY}" }}')
KEPT = PLAN.replace('version = "18.1"', 'version = "18.1"\nkeep_data = true')
IN_MEMORY = ELSEWHERE.replace(MEMORY, "tmpfs")


@pytest.mark.parametrize(
    ("plan", "way", "said"),
    [
        (ELSEWHERE, "btrfs", "/dev/shm is on tmpfs"),
        (ELSEWHERE, "reflink", "/dev/shm is on tmpfs, where files cannot share blocks"),
        (IN_MEMORY, "btrfs", "its cluster is in memory"),
        (KEPT, "zfs", "its cluster is kept (keep_data)"),
    ],
)
def test_a_snapshot_that_a_file_system_cannot_make(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plan: str, way: str, said: str
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    missing = the_problem(tmp_path, PLAN + 'method = "snapshot"\nsnapshot = "btrfs"')
    assert missing.message == "program btrfs is not on the PATH"
    programs(tmp_path, "btrfs", "zfs")
    message = f'"{way}" is not possible for target new: {said}'
    refuse(tmp_path, plan + f'method = "snapshot"\nsnapshot = "{way}"', "reset.snapshot", message)
    load(tmp_path, plan + 'method = "snapshot"\nsnapshot = "copy"')


COPY = "restore the cluster from a stopped copy"


def test_the_steps_of_a_reset_are_described(tmp_path: Path) -> None:
    for lines, words in (
        (
            'method = "reload"\ndrop_cache = "files"\nprewarm = "pg_prewarm"\nanalyze = true\ncheckpoint = false',
            "reload the dataset; drop the page cache of the cluster's files; prewarm with pg_prewarm; analyze",
        ),
        ("", "vacuum tellers and branches, empty the history; checkpoint"),
        ('method = "none"\ncheckpoint = false', "the dataset stays as the previous trial left it"),
        (
            'method = "snapshot"\nrestart = true\nprewarm = "read"\nstatistics = true',
            f"{COPY}; checkpoint; restart the server; prewarm by reading every table; reset statistics",
        ),
        ('method = "snapshot"\nsnapshot = "copy"\ncheckpoint = false', f"{COPY} (copy)"),
        (
            'method = "template"\nstrategy = "file_copy"\nfile_copy_method = "clone"',
            "copy the template database (file_copy, clone); checkpoint",
        ),
    ):
        assert before_each_trial(load(tmp_path, NEW + lines)) == f"before each trial: {words}"
        without = load(tmp_path, NO_DATASET + "checkpoint = false")
        assert before_each_trial(without) == "before each trial: nothing"
        assert "checks" not in around_each_trial(without)
