"""`pgdyno bisect` and `pgdyno count` on planted changes of a small extension, built for Debian's server."""

import mmap
import os
import shutil
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from pgdyno.bisection.journal import FILE
from pgdyno.errors import ExitCode
from pgdyno.instructions.count_error import CountError
from pgdyno.instructions.perf_stat import instructions_of, read_count
from pgdyno.store.profiles import read_profile
from pgdyno.targets import Home
from tests.forked import PGDYNO
from tests.json_schema import validated
from tests.postgres.runs import environment, pgdyno, the_run
from tests.present import present
from tests.small_extension import change_rounds, commit_all, git, programs_with_headers, write_extension
from tests.waiting import wait_until

QUICK = ("--alongside", "--no-preflight")
PAIRS = ("--by", "tps", "-c", "1", "-T", "100ms", "--warmup", "0s", "--pairs", "6")
FAST, SLOW, VERY_SLOW = 20_000, 20_400, 2_000_000


@pytest.fixture
def tree(scratch: Path) -> Path:
    """A history: fast, fast, one that does not compile, one that crashes its server, slow, slow."""
    folder = write_extension(scratch / "busywork", mix=FAST)
    source = folder / "busywork.c"
    text = source.read_text()
    commit_all(folder, "begin")
    commit_all(folder, "fast")
    for subject, broken in (
        ("broken", text + "#error broken\n"),
        ("crashes", text.replace("if (fails_at_start)", "if (true)")),
    ):
        source.write_text(broken)
        commit_all(folder, subject)
    source.write_text(text)
    change_rounds(folder, mix=SLOW)
    commit_all(folder, "slow")
    commit_all(folder, "after")
    (scratch / "mix.sql").write_text("SELECT busywork_mix(1);\n")
    (scratch / "setup.sql").write_text("CREATE TABLE unused (a int);\n")
    return folder


def options(tree: Path, *others: str) -> list[str]:
    load = ["-f", str(tree.parent / "mix.sql"), "--setup", str(tree.parent / "setup.sql")]
    return ["--repo", str(tree), *load, "--bin", str(programs_with_headers()), *QUICK, *others]


def bisect(home: Home, tree: Path, *others: str) -> tuple[Any, int, str]:
    """The answer, the exit code and what was printed on standard error."""
    done = pgdyno(home, tree.parent, "bisect", "--json", *others)
    printed = done.stdout.splitlines()
    return validated("bisect", printed[-1]) if printed else None, done.returncode, done.stderr


def journal_text(tree: Path) -> str:
    """The journal of the one bisection; empty before it begins."""
    return "".join(path.read_text() for path in (tree.parent / "pgdyno-runs").glob(f"*/{FILE}"))


def subjects(tree: Path, commits: list[str]) -> list[str]:
    return [git(tree, "log", "-1", "--format=%s", each).strip() for each in commits]


def interrupt(home: Home, tree: Path, trials: int, *others: str) -> str:
    """Begins a bisection, and interrupts it as that trial runs; returns what it wrote on standard error."""
    command = [str(PGDYNO), "bisect", *options(tree, *others)]
    runs = tree.parent / "pgdyno-runs"
    with subprocess.Popen(
        command, cwd=tree.parent, env=environment(home), stderr=subprocess.PIPE, text=True
    ) as running:
        wait_until(lambda: len(list(runs.glob("*/*/*/trials/0*"))) >= trials or running.poll() is not None)
        running.send_signal(signal.SIGINT)
        _, error = running.communicate()
    assert running.returncode == ExitCode.INTERRUPTED, error
    return error


@pytest.mark.long
def test_a_bisection_skips_what_cannot_be_measured_and_resumes(warm_home: Home, tree: Path) -> None:
    (tree / "busywork.c").write_text("not C at all: the work tree is not what is built\n")
    before = git(tree, "status", "--porcelain"), sorted(tree.rglob("*"))
    # in the middle of the count of the bad commit
    interrupt(warm_home, tree, 3, "--good", "HEAD~4", "--bad", "HEAD~1")
    (journal,) = (tree.parent / "pgdyno-runs").glob(f"*/{FILE}")
    looked = sorted(journal.parent.glob("count-*/*"))
    found, code, error = bisect(warm_home, tree, "--resume", "latest", "--alongside", "--no-preflight")
    assert code == ExitCode.OK, error
    assert [each for each in looked if not each.is_dir()] == []
    assert [len(list(each.parent.iterdir())) for each in looked] == [1] * len(looked)
    assert subjects(tree, found["commits"]) == ["broken", "crashes", "slow"]
    assert sorted(subjects(tree, found["skipped"])) == ["broken", "crashes"]
    assert (found["probability"], found["builds"]) == (pytest.approx(1.0), 2)
    effect = present(found["effect"])
    assert effect["low"] <= effect["change"] <= effect["high"]
    assert effect["change"] == pytest.approx(0.02, abs=0.005)
    assert (git(tree, "status", "--porcelain"), sorted(tree.rglob("*"))) == before
    # nothing is measured twice, and a terminal shows the functions that changed
    again, code, _ = bisect(warm_home, tree, "--resume", str(journal.parent))
    assert (again | {"folder": ""}, code) == (found | {"folder": ""}, ExitCode.OK)
    done = pgdyno(warm_home, tree.parent, "bisect", "--resume", "latest")
    assert done.returncode == ExitCode.OK, done.stderr
    assert "mix_rounds" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("one of 3 commits, ")


@pytest.mark.long
def test_a_disk_that_fills_up_says_nothing_about_a_commit(scratch: Path, tree: Path) -> None:
    disk = scratch / "home"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=400m,mode=0755", "tmpfs", str(disk)], check=True)
    home, filler = Home.locate(disk), disk / "filler"
    command = [str(PGDYNO), "bisect", *options(tree, "--good", "HEAD~5", "--bad", "HEAD~1")]
    try:
        with subprocess.Popen(
            command, cwd=scratch, env=environment(home), stderr=subprocess.PIPE, text=True
        ) as running:
            wait_until(lambda: '"ends": {' in journal_text(tree) or running.poll() is not None)
            with filler.open("wb") as file:
                os.posix_fallocate(file.fileno(), 0, shutil.disk_usage(disk).free - (25 << 20))
            _, error = running.communicate()
        assert running.returncode == ExitCode.TARGET, error
        assert "too little space is left" in error
        assert '"reason"' not in journal_text(tree).replace('"reason": null', "")
        filler.unlink()
        found, code, error = bisect(home, tree, "--resume", "latest", *QUICK)
        assert (code, subjects(tree, found["commits"])) == (ExitCode.OK, ["broken", "crashes", "slow"]), error
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)


def test_a_bisection_by_throughput_skips_a_commit_and_resumes(warm_home: Home, tree: Path) -> None:
    source = tree / "busywork.c"
    text = source.read_text()
    source.write_text(text + "#error broken\n")
    commit_all(tree, "broken again")
    source.write_text(text)
    change_rounds(tree, mix=VERY_SLOW)
    commit_all(tree, "very slow")
    error = interrupt(warm_home, tree, 3, "--good", "HEAD~2", "--bad", "HEAD", *PAIRS)
    assert "to resume: pgdyno bisect --resume" in error
    found, code, error = bisect(warm_home, tree, "--resume", "latest", "--alongside", "--no-preflight")
    assert code == ExitCode.OK, error
    assert subjects(tree, found["commits"]) == ["broken again", "very slow"]
    assert subjects(tree, found["skipped"]) == ["broken again"]
    assert present(found["effect"])["high"] < -0.3


def test_ends_of_which_one_cannot_be_built_are_refused(warm_home: Home, tree: Path) -> None:
    found, code, error = bisect(warm_home, tree, *options(tree, "--good", "HEAD~5", "--bad", "HEAD~3"))
    assert (found, code) == (None, ExitCode.TARGET), error
    assert "compiling failed" in error
    # without programs of both, nothing is measured
    assert not list(tree.parent.rglob("count-*"))


@pytest.mark.long
def test_equal_ends_are_inconclusive_and_old_builds_are_removed(warm_home: Home, tree: Path) -> None:
    ends = ("--good", "HEAD~5", "--bad", "HEAD~4")
    found, code, error = bisect(warm_home, tree, *options(tree, *ends, "--cache", "1MB"))
    assert code == ExitCode.INCONCLUSIVE, error
    assert (found["commits"], found["effect"], found["builds"]) == ([], None, 2)
    assert len([path for path in (warm_home.root / "builds").iterdir() if path.is_dir()]) == 1


@pytest.mark.long
def test_a_good_commit_that_is_slower_is_refused(warm_home: Home, tree: Path) -> None:
    change_rounds(tree, mix=FAST)
    commit_all(tree, "fast again")
    _, code, error = bisect(warm_home, tree, *options(tree, "--good", "HEAD~1"))
    assert code == ExitCode.USAGE
    assert "cheaper in instructions" in error
    assert "exchange --good and --bad" in error


BAD_OPTIONS = {
    "": "needs --repo and --good",
    "--repo . --good HEAD": "name the load",
    "--resume none": "there is no bisection none",
    "--pairs 3": "3 pairs are too few",
    "--pairs x": "--pairs",
    "--cache x": "--cache",
    "--set work_mem=4MB,8MB": "several values",
}


def test_bad_options_are_refused_before_anything_is_built(fresh_home: Home, tree: Path) -> None:
    for given, expected in BAD_OPTIONS.items():
        is_whole = not given or given.startswith(("--repo", "--resume"))
        words = given.split() if is_whole else [*options(tree), "--good", "HEAD~5", *given.split()]
        _, code, error = bisect(fresh_home, tree, *words)
        assert (code, expected in error) == (ExitCode.USAGE, True), error
    assert not (fresh_home.root / "builds").exists()


# ---- counts under Valgrind ----


MIX = "\\set n random(1, 9)\nBEGIN;\nSELECT busywork_mix(:n);\nEND;\n"
ROUNDS, MORE = 5_000, 500
FEW = ("-t", "5", "--repeats", "2", "--alongside", "--no-preflight")


def count(home: Home, folder: Path, *others: str) -> tuple[int, str, str]:
    (folder / "mix.sql").write_text(MIX)
    tree = write_extension(folder / "busywork", mix=ROUNDS)
    servers = ("--bin", str(programs_with_headers()), "--extension", str(tree))
    done = pgdyno(home, folder, "count", *servers, "-f", "mix.sql", *FEW, *others)
    return done.returncode, done.stdout, done.stderr


def test_a_planted_change_is_found_by_statement_and_function(warm_home: Home, scratch: Path) -> None:
    code, printed, errors = count(warm_home, scratch, "--json", "--set", f"busywork.extra_rounds=0,{MORE}")
    assert code == ExitCode.OK, errors
    answer: Any = validated("count", printed.splitlines()[-1])
    before, after = answer["arms"]
    change = after["functions"]["mix_rounds"] - before["functions"]["mix_rounds"]
    # a round is the same instructions each time
    assert change == pytest.approx(before["functions"]["mix_rounds"] * MORE / ROUNDS, rel=0.01)
    assert after["instructions"] - before["instructions"] == pytest.approx(change, rel=0.02)
    # of two counts of five transactions
    assert max(each["spread"] for each in answer["arms"]) < 0.002
    run = the_run(scratch)
    (script,) = present(present(run.trials()[0].summary).instructions).scripts
    assert [each.text for each in script.statements] == ["BEGIN", "SELECT busywork_mix($1)", "END"]
    # nothing of Valgrind is left, neither files nor processes
    assert not list(warm_home.root.rglob("out.*"))
    gated = pgdyno(warm_home, scratch, "gate", "latest", "--by", "instructions", "--max-regression", "0.5%")
    assert gated.returncode == ExitCode.REGRESSION
    assert pgdyno(warm_home, scratch, "gate", "latest", "--max-regression", "50%").returncode == ExitCode.OK


@pytest.mark.long
def test_a_flame_graph_has_the_whole_stack(warm_home: Home, scratch: Path) -> None:
    code, _, errors = count(warm_home, scratch, "--stacks")
    assert code == ExitCode.OK, errors
    run = the_run(scratch)
    (profile,) = run.manifest.profiles
    stacks = present(read_profile(run.path, profile))
    assert profile.event == "instructions"
    assert any(";PostgresMain;" in stack and stack.endswith(";mix_rounds") for stack in stacks)


@pytest.mark.long
@pytest.mark.parametrize(
    ("others", "said"),
    [
        (("--set", "busywork.fails_at_start=on"), "Process terminating with default action of signal 6"),
        (("-f", "missing.sql"), "relation"),
    ],
)
def test_a_failure_says_why(warm_home: Home, scratch: Path, others: tuple[str, ...], said: str) -> None:
    (scratch / "missing.sql").write_text("SELECT * FROM missing;\n")
    code, printed, errors = count(warm_home, scratch, *others)
    assert code == ExitCode.TRIALS_FAILED
    assert said in printed + errors
    assert not list(warm_home.root.rglob("out.*"))


def test_the_package_of_a_counter_is_named(warm_home: Home, scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (scratch / "tools").mkdir()
    monkeypatch.setenv("PATH", str(scratch / "tools"))
    done = pgdyno(warm_home, scratch, "count", "--version", "18")
    assert done.returncode == ExitCode.ENGINE
    assert "apt install valgrind" in done.stderr or "util-linux" in done.stderr


def test_perf_counts_in_a_process_or_says_why_not() -> None:
    # fresh memory in small pages; what malloc returns may have been there before
    pages = mmap.mmap(-1, 1 << 24)
    pages.madvise(mmap.MADV_NOHUGEPAGE)

    def touch() -> None:
        pages[:] = bytes(1 << 24)

    # a virtual machine has no counter of instructions
    with suppress(CountError):
        assert instructions_of(os.getpid(), touch, "page-faults:u") > 1_000
    assert read_count("12345,,instructions:u,100,100.00,,\n") == 12345
    with pytest.raises(CountError, match="no counter"):
        read_count("<not supported>,,instructions:u,0,100.00,,\n")
