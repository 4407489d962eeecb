"""`pgdyno count`: a planted change of an extension, in Debian's server under Valgrind."""

import mmap
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from pgdyno.errors import ExitCode
from pgdyno.instructions.count_error import CountError
from pgdyno.instructions.perf_stat import instructions_of, read_count
from pgdyno.store.profiles import read_profile
from pgdyno.targets import Home
from tests.json_schema import validated
from tests.postgres.runs import pgdyno, the_run
from tests.present import present
from tests.small_extension import programs_with_headers, write_extension

SCRIPT = "\\set n random(1, 9)\nBEGIN;\nSELECT busywork_mix(:n);\nEND;\n"
ROUNDS, MORE = 5_000, 500
QUICK = ("-t", "5", "--repeats", "2", "--alongside", "--no-preflight")


def count(home: Home, folder: Path, *others: str) -> tuple[int, str, str]:
    (folder / "mix.sql").write_text(SCRIPT)
    tree = write_extension(folder / "busywork", mix=ROUNDS)
    servers = ("--bin", str(programs_with_headers()), "--extension", str(tree))
    done = pgdyno(home, folder, "count", *servers, "-f", "mix.sql", *QUICK, *others)
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
