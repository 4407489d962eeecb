"""Under the name `pgbench`, pgdrive compared with pgbench over combinations of options: values, logs, summary."""

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.postgres.pgbench_words import assert_same_words
from tests.postgres.test_pgbench_differential import DATABASES, Pair, logged, normalised, pair, shape

__all__ = ["pair"]

CONFLICTS = (
    "\\set odd random(0, 2)\nBEGIN;\nSELECT :odd;\n\\if :odd = 0\n"
    "DO $$ BEGIN RAISE SQLSTATE '40001'; END $$;\n\\elif :odd = 1\n"
    "DO $$ BEGIN RAISE SQLSTATE '40P01'; END $$;\n\\endif\nEND;\n"
)


def script(folder: Path, text: str) -> str:
    file = folder / "script.sql"
    file.write_text(text)
    return str(file)


# ---- values ----

DRAWS = (
    "\\set a random(1, 1000000)\n\\set b random_zipfian(1, 1000, 1.2)\n\\set n :n + 1\n\\set h hash(:a)\n"
    "INSERT INTO draws VALUES ({number}, :client_id, :n, :a, :b, :default_seed % 1000003, :h);\n"
)


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_every_client_draws_its_own_values(pair: Pair, tmp_path: Path, workers: int) -> None:
    for database in DATABASES:
        pair.rows(
            database,
            "DROP TABLE IF EXISTS draws;"
            " CREATE TABLE draws (script int, client int, n int, a int, b int, seed bigint, h bigint); SELECT 1",
        )
    files = []
    for number in range(2):
        files.append(tmp_path / f"draws{number}.sql")
        files[-1].write_text(DRAWS.replace("{number}", str(number)))
    # with a client a worker, the choice of scripts does not hang on who is first
    args = ("-n", "-D", "n=0", "-c", "4", "-j", str(workers), "-t", "60", "--random-seed=77")
    chosen = ("-f", f"{files[0]}@2", "-f", f"{files[1]}@3") if workers == 4 else ("-f", str(files[0]))
    done = pair.both(*args, *chosen, folder=tmp_path)
    assert [one.returncode for one in done] == [0, 0], done
    theirs, ours = (pair.rows(database, "SELECT * FROM draws ORDER BY client, n") for database in DATABASES)
    assert len(theirs) == 240
    assert len({row[3] for row in theirs}) > 200
    assert theirs == ours


# ---- logs ----

LOGS = [
    ("-S", "-c", "4", "-j", "4", "-t", "30", "--sampling-rate=0.3"),
    ("-S", "-c", "4", "-j", "2", "-t", "30", "-R", "3000"),
    ("-S", "-c", "4", "-j", "2", "-t", "30", "-L", "10000"),
    ("-S", "-C", "-c", "3", "-j", "3", "-t", "10"),
    ("-b", "select-only@2", "-b", "simple-update@3", "-c", "3", "-j", "3", "-t", "20"),
    ("-S", "-c", "2", "-j", "2", "-t", "30", "--log-prefix=some_log"),
    ("-S", "-c", "2", "-t", "30", "-R", "2000", "-L", "10000", "--failures-detailed"),
    ("-S", "-c", "2", "-t", "30", "--max-tries=3"),
    ("-S", "-c", "2", "-t", "30", "-R", "2000", "--max-tries=3"),
]


@pytest.mark.parametrize("args", LOGS, ids=" ".join)
def test_logs_have_the_same_lines(pair: Pair, tmp_path: Path, args: tuple[str, ...]) -> None:
    done = pair.both("-n", "-l", "--random-seed=11", *args, folder=tmp_path)
    assert [one.returncode for one in done] == [0, 0], done
    theirs, ours = (logged(tmp_path / database) for database in DATABASES)
    # client, number, script and the number of columns
    keys = [sorted((int(line[0]), int(line[1]), line[3], len(line)) for line in log) for log in (theirs, ours)]
    assert keys[0] == keys[1] != []
    assert all(int(line[2]) > 0 and int(line[5]) < 10**6 for line in ours if line[2].isdigit())
    named = [
        sorted(re.sub(r"\.\d+", ".PID", file.name, count=1) for file in (tmp_path / database).iterdir())
        for database in DATABASES
    ]
    assert named[0] == named[1]


TRIES = "--max-tries=3"
RETRIES = [
    (TRIES,),
    (TRIES, "--failures-detailed"),
    (TRIES, "-R", "2000"),
    (TRIES, "-R", "2000", "-L", "60000", "--failures-detailed"),
    # the messages of several clients come in any order
    ("--verbose-errors", "-c", "1"),
    ("--verbose-errors", "-c", "1", "--failures-detailed", TRIES),
]


@pytest.mark.parametrize("extra", RETRIES, ids=" ".join)
def test_retries_are_logged_and_summed_up_alike(pair: Pair, tmp_path: Path, extra: tuple[str, ...]) -> None:
    file = script(tmp_path, CONFLICTS)
    # one thread: those of pgbench count the failures and retries of a command without a lock, and lose some
    args = ("-n", "-l", "-f", file, "-c", "3", "-j", "1", "-t", "30", "--random-seed=4", "-r", *extra)
    done = pair.both(*args, folder=tmp_path)
    assert [one.returncode for one in done] == [0, 0], done
    assert_same_words(summary(done[1].stdout), summary(done[0].stdout))
    if "--verbose-errors" in extra:
        assert_same_words(normalised(done[1].stderr), normalised(done[0].stderr))
    logs = [logged(tmp_path / database) for database in DATABASES]
    # all but the latency and the instants; the last column has the retries
    said = [
        sorted(
            (
                line[0],
                int(line[1]),
                "ok" if line[2].isdigit() else line[2],
                line[3],
                len(line),
                line[-1] * (TRIES in extra),
            )
            for line in log
        )
        for log in logs
    ]
    assert said[0] == said[1]
    assert {line[2] for line in said[0]} > {"ok"}


AGGREGATES = [(), ("-R", "400", "-L", "60000"), ("-R", "400", "--max-tries=2", "--failures-detailed")]
# the 30th transaction of every other client, one of each worker, waits until the others have left, and then for more
# than an interval: all but those end in intervals that end;
# a retry draws the same number again, and is not counted as another transaction
LINGERS = (
    "\\set drawn random(1, 1000000000)\n\\if :drawn <> :last\n\\set done :done + 1\n\\endif\n\\set last :drawn\n"
    "\\if :done = 30 and :client_id % 2 = 0\n"
    "DO $$ BEGIN WHILE (SELECT count(*) > 2 FROM pg_stat_activity WHERE datname = current_database()"
    " AND backend_type = 'client backend') LOOP PERFORM pg_sleep(0.01), pg_stat_clear_snapshot(); END LOOP; END $$;\n"
    "\\sleep 1500 ms\n\\endif\n"
)


@pytest.mark.parametrize("extra", AGGREGATES, ids=" ".join)
def test_lines_of_intervals_add_up_alike(pair: Pair, tmp_path: Path, extra: tuple[str, ...]) -> None:
    file = script(tmp_path, LINGERS + CONFLICTS)
    args = ("-n", "-l", "-f", file, "-D", "done=0", "-D", "last=0", "-c", "4", "-j", "2", "-t", "30", *extra)
    done = pair.both(*args, "--random-seed=6", "--aggregate-interval=1", folder=tmp_path)
    assert [one.returncode for one in done] == [0, 0], done
    logs = [logged(tmp_path / database) for database in DATABASES]
    assert {len(line) for log in logs for line in log} == {15}
    # which columns hold anything but zeros: that is what the options ask for
    used = [[any(float(line[column]) > 0 for line in log) for column in range(15)] for log in logs]
    assert used[0] == used[1]
    counted = [[sum(int(line[column]) for line in log) for column in (1, 10, 11, 12, 13, 14)] for log in logs]
    assert counted[0] == counted[1]
    assert counted[0][0] > 20


# ---- progress ----

PROGRESS = [
    (),
    ("--progress-timestamp",),
    ("-R", "50"),
    ("-R", "50", "-L", "1000"),
    ("-L", "1000"),
    ("--max-tries=2",),
    ("-R", "50", "-L", "1000", "--max-tries=2"),
]


def progress_forms(pair: Pair, folder: Path, extra: tuple[str, ...]) -> list[set[str]]:
    """The forms of both programs' progress lines: each whole number, or part of one, is a 9."""
    folder.mkdir()
    forms = []
    file = script(folder, "SELECT 1;\n\\sleep 5 ms\n")
    for one in pair.both("-f", file, "-n", "-c", "2", "-j", "2", "-T", "2", "-P", "1", *extra, folder=folder):
        assert one.returncode == 0, one
        lines = [line for line in one.stderr.splitlines() if line.startswith("progress: ")]
        assert 1 <= len(lines) <= 2
        # the number of decimal digits is kept
        forms.append({re.sub(r"\d", "9", re.sub(r"(?<![.\d])\d+", "9", line)) for line in lines})
    return forms


def test_progress_lines_have_the_same_words(pair: Pair, tmp_path: Path) -> None:
    # each takes its seconds: all at once
    with ThreadPoolExecutor(len(PROGRESS)) as pool:
        found = pool.map(lambda case: progress_forms(pair, tmp_path / str(case[0]), case[1]), enumerate(PROGRESS))
    for extra, (theirs, ours) in zip(PROGRESS, found, strict=True):
        assert len(theirs) == len(ours) == 1, extra
        assert_same_words(ours.pop(), theirs.pop())


# ---- summary ----


def summary(text: str) -> str:
    return re.sub(r"(?<=[ (])\d+\.\d{3}(?=[ )]|$)", "#", shape(text), flags=re.MULTILINE)


SUMMARIES = [
    ("-S", "-t", "20", "-r", "-M", "prepared"),
    ("-S", "-t", "20", "-R", "2000"),
    ("-S", "-t", "20", "-R", "2000", "-L", "60000", "-r"),
    ("-S", "-t", "20", "-L", "60000"),
    ("-S", "-t", "20", "-P", "5"),
    ("-S", "-t", "10", "-C", "-r"),
    ("-S", "-t", "10", "-C", "-R", "1000", "-M", "extended"),
    ("-N", "-t", "10", "-c", "4", "-j", "3", "--failures-detailed"),
    ("-N", "-t", "10", "--max-tries=4", "-r", "--failures-detailed"),
    ("-N", "-t", "10", "--max-tries=0", "-L", "60000", "-R", "1000"),
    ("-b", "tpcb-like@1", "-b", "select-only@4", "-t", "30", "-r", "-M", "extended"),
    ("-b", "tpcb-like", "-b", "select-only@0", "-t", "10"),
    ("-b", "se@1", "-b", "simple@1", "-t", "30", "-R", "2000", "-L", "60000", "--max-tries=2", "--failures-detailed"),
    # one thread: those of pgbench count the transactions of a script without a lock, too
    ("-b", "se@1", "-b", "simple@1", "-t", "30", "-C", "-r", "-c", "2", "-j", "1"),
    ("-S", "-t", "10", "-c", "2", "-j", "8"),
    ("-S", "-t", "10", "-s", "7", "-D", "x=1", "--progress-timestamp", "-P", "9"),
]


@pytest.mark.parametrize("args", SUMMARIES, ids=" ".join)
def test_summaries_have_the_same_words(pair: Pair, tmp_path: Path, args: tuple[str, ...]) -> None:
    theirs, ours = pair.both("-n", "--random-seed=8", *args, folder=tmp_path)
    assert theirs.returncode == ours.returncode == 0, ours.stderr
    assert_same_words(summary(ours.stdout), summary(theirs.stdout))
    assert_same_words(normalised(ours.stderr), normalised(theirs.stderr))
