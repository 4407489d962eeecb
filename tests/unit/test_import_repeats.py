"""Outputs count as repeats only if nothing between them names a different measurement."""

from collections import Counter
from pathlib import Path

import pytest

from pgdyno.audit import audit
from pgdyno.importers.write import ImportResult
from pgdyno.store import load_run
from tests.unit.import_sample import fields, import_texts, imported_run


def output(tps: float, *, clients: int = 8, duration_s: int = 60) -> str:
    return (
        "transaction type: <builtin: TPC-B (sort of)>\nscaling factor: 10\nquery mode: simple\n"
        f"number of clients: {clients}\nnumber of threads: 2\nduration: {duration_s} s\n"
        f"number of transactions actually processed: {round(tps * duration_s)}\n"
        f"tps = {tps:.6f} (without initial connection time)\n"
    )


TWO = [output(900.5), output(1200.5)]


def with_labels(label: str, *names: str) -> str:
    """Returns an output below the label with each of the names."""
    return "".join(f"{label.format(name)}\n{output(900.5 + at)}\n" for at, name in enumerate(names))


def targets(result: ImportResult) -> Counter[str]:
    return Counter(trial.target for trial in load_run(result.run).trials)


def test_names_of_instances_are_targets_in_many_forms(tmp_path: Path) -> None:
    text = with_labels("Instance: {}\n", "m5", "m6g", "r7")
    assert targets(import_texts(tmp_path, text)) == {"m5": 1, "m6g": 1, "r7": 1}
    below = with_labels("# {}\n\n## Results\n", "EC2", "RDS")
    assert targets(import_texts(tmp_path, below)) == {"Results, EC2": 1, "Results, RDS": 1}
    servers = with_labels("$ pgbench -h {} -c 8 -T 60 bench", "a", "b")
    assert targets(import_texts(tmp_path, servers)) == {"out, a:bench": 1, "out, b:bench": 1}
    for label, names in (
        ("\nInstance type = {}\n", "alpha beta"),
        ("\n**Instance:** {}\n", "alpha beta"),
        ("\n## Instance: {}\n", "alpha beta"),
        ("\n=== {} ===\n", "alpha beta"),
        ("\n[{}]\n", "alpha beta"),
        ("\n{}\n======\n", "alpha beta"),
        ("\n- Server: {}\n", "alpha beta"),
        ("Version: {}", "15.4 16.1"),
        ("pgbench ({})", "15.4 16.1"),
        ("pgbench (16.1, server {})", "15.4 16.1"),
    ):
        assert len(targets(import_texts(tmp_path, with_labels(label, *names.split())))) == 2


def test_words_that_count_repeats_name_no_target(tmp_path: Path) -> None:
    for label in ("", "run {}", "Run #{}:", "--- run {} ---", "iteration {} of 3", "{}.", "real 0m60.0{}s", "2nd run"):
        found = import_texts(tmp_path, f"# one\n\n$ pgbench -c 8 -j 2 -T 60\n{with_labels(label, '1', '2', '3')}")
        assert list(targets(found).values()) == [3]
        assert label or targets(found) == {"one": 3}
        assert fields(load_run(found.run).trials, "repeat") == [1, 2, 3]
        assert found.notes == []


def test_text_between_outputs_parts_them_unless_a_target_is_given(tmp_path: Path) -> None:
    text = "\nNow with larger shared_buffers:\n\n".join(TWO)
    found = import_texts(tmp_path, text)
    assert targets(found) == {"out": 1, "out (2)": 1}
    assert fields(found.notes, "id") == ["repeats-undecided-by-text"]
    assert "--target NAME" in str(found.notes[0])
    given = import_texts(tmp_path, text, target="pg17")
    assert (targets(given), given.notes) == ({"pg17": 2}, [])
    # between points of a sweep, it parts nothing
    text = "".join(f"With {clients} clients:\n\n{output(100 * clients, clients=clients)}\n" for clients in (1, 2, 4, 8))
    assert targets(import_texts(tmp_path, text)) == {"out": 4}


def test_files_are_targets_of_their_own_unless_one_is_given(tmp_path: Path) -> None:
    texts = [f"# Results\n\n{each}" for each in (*TWO, output(35800.5))]
    found = {"out, Results": 1, "out1, Results": 1, "out2, Results": 1}
    assert targets(import_texts(tmp_path, *texts)) == found
    folders = import_texts(tmp_path, *texts[:2], names=("aws/out.txt", "gcp/out.txt"))
    assert targets(folders) == {"aws/out, Results": 1, "gcp/out, Results": 1}
    same = imported_run(tmp_path, *TWO, target="pg17")
    assert fields(same.trials, "target repeat") == [("pg17", 1), ("pg17", 2)]
    # that differ in their suffix only
    assert targets(import_texts(tmp_path, *TWO, names=("pg16.4", "pg16.6"))) == {"pg16.4": 1, "pg16.6": 1}
    mixed = import_texts(tmp_path, *TWO, output(901.5), names=("a/b.before", "a/b.after", "c/b.after"))
    assert targets(mixed) == {"b.before": 1, "a/b.after": 1, "c/b.after": 1}
    # of CSV, without a target
    tables, names = [f"clients,tps\n8,{tps}\n" for tps in (900.5, 1200.5)], ("a/results.csv", "b/results.csv")
    assert targets(import_texts(tmp_path, *tables, names=names)) == {"a/results": 1, "b/results": 1}
    assert targets(import_texts(tmp_path, *tables, names=names, target="pg17")) == {"pg17": 2}
    named = [f"target,clients,tps\npg17,8,{tps}\n" for tps in (900.5, 1200.5)]
    assert targets(import_texts(tmp_path, *named, names=names)) == {"pg17": 2}
    # logs of the same name
    lines = "".join(f"0 {number} 500 0 {1_700_000_000 + number} 5\n" for number in range(5))
    logs = [f"{folder}/pgbench_log.7" for folder in ("aws", "gcp")]
    assert targets(import_texts(tmp_path, lines, lines, names=logs)) == dict.fromkeys(logs, 1)
    given = imported_run(tmp_path, lines, lines, names=logs, target="pg17")
    assert fields(given.trials, "target repeat") == [("pg17", 1), ("pg17", 2)]


def test_csv_rows_that_differ_in_words_are_no_repeats_and_the_remedy_for_few_is_no_key_of_a_plan(
    tmp_path: Path,
) -> None:
    table = "target,clients,tps,host,pg_version,date,run,cpu\n" + "".join(
        f"pg17,8,{tps},{host},{version},2026-11-{day} 12:00:00,run {day},3{day}.5 %\n"
        for tps, host, version, day in ((900, "a", "16.4", 10), (901, "a", "16.4", 11), (902, "b", "17.2", 12))
    )
    trials = imported_run(tmp_path, table, names=("t.csv",)).trials
    assert fields(trials, "repeat") == [1, 2, 1]
    assert trials[2].point.variables == {"host": "b", "pg_version": "17.2"}
    # the remedy for few is no key of a plan, which an import does not have
    run = imported_run(tmp_path, *TWO, target="db")
    (finding,) = (each for each in audit(run) if each.rule == "no-repeats")
    assert "points have 2 trials" in finding.message
    assert finding.advice == "repeat every point more often"


@pytest.mark.parametrize(
    "database", ["postgres://u:secret@{}/db", "'postgres://u@{}/db?sslmode=require'", '"host={} dbname=db"']
)
@pytest.mark.parametrize("command", ["pgbench {} -c 8 -T 60", "pgbench -c 8 -T 60 {}"])
def test_a_connection_string_names_a_target_wherever_it_is(command: str, database: str, tmp_path: Path) -> None:
    texts = [f"$ {command.format(database.format(host))}\n{output(100)}" for host in ("db1", "db2")]
    run = imported_run(tmp_path, "".join(texts), target="pg")
    assert fields(run.trials, "target") == ["pg, db1:db", "pg, db2:db"]
    assert "secret" not in (run.folder.path / "manifest.json").read_text()


def test_what_precedes_a_command_names_targets_too(tmp_path: Path) -> None:
    for first, second, names in (
        ("$ PGHOST=db1 pgbench", "$ PGHOST=db2 pgbench", ["pg, db1:bench", "pg, db2:bench"]),
        ("$ export PGPORT=5433; pgbench", "$ export PGPORT=5434; pgbench", ["pg, 5433:bench", "pg, 5434:bench"]),
        ("$ env PGSERVICE=a pgbench", "$ env PGSERVICE=b pgbench", ["pg, a:bench", "pg, b:bench"]),
        ("$ PGHOST=db1 pgbench", "$ pgbench", ["pg, db1:bench", "pg, bench"]),
        ("$ docker exec -it pg16 pgbench", "$ docker exec pg17 pgbench", ["pg, docker pg16", "pg, docker pg17"]),
        ("$ ssh db1 sudo pgbench", "$ ssh db2 pgbench", ["pg, ssh db1", "pg, ssh db2"]),
        ("$ ssh db1 pgbench", "$ pgbench", ["pg, ssh db1", "pg"]),
        ("$ kubectl exec a-0 -- pgbench", "$ kubectl exec b-0 -- pgbench", ["pg, kubectl a-0", "pg, kubectl b-0"]),
        ("[root@db1 ~]# pgbench", "[root@db2 ~]# pgbench", ["pg, db1", "pg, db2"]),
        ("postgres@pg16:~$ pgbench", "me@pg17:/tmp$ pgbench", ["pg, pg16", "pg, pg17"]),
    ):
        text = f"{first} -c 8 -T 60 bench\n{output(900.5)}\n{output(901.5)}\n"
        text += f"{second} -c 8 -T 60 bench\n{output(1200.5)}\n"
        assert targets(import_texts(tmp_path, text, target="pg")) == {names[0]: 2, names[1]: 1}
        command = fields(imported_run(tmp_path, text).trials, "imported.command")[0]
        assert command == f"{first.removeprefix('$ ')} -c 8 -T 60 bench"


def test_other_variables_options_and_programs_part_outputs(tmp_path: Path) -> None:
    for first, second, options in (
        ("$ PGOPTIONS='-c x=on' pgbench -c 8", "$ PGOPTIONS='-c x=off' pgbench -c 8", "PGOPTIONS=-c x=off"),
        ("$ pgbench -c 8", "$ sudo -u postgres PGSSLMODE=disable pgbench -c 8", "PGSSLMODE=disable"),
        ("$ taskset -c 0-3 pgbench -c 8", "$ numactl -N 0 sudo pgbench -c 8", "numactl -N 0"),
        ("$ pgbench -c 8 'options=-cx=on'", "$ pgbench -c 8 'options=-cx=off'", "options=-cx=off"),
        ("$ pgbench -c 8 'host=d sslmode=disable'", "$ pgbench -c 8 'host=d sslmode=require'", "sslmode=require"),
        ("$ pgbench -c 8", "$ pgbench -c 8 postgresql:///?options=-c%20work_mem%3D4MB", "options=-c work_mem=4MB"),
        ("$ pgbench -n -c 8", "$ pgbench -C -c 8", "-C"),
    ):
        trials = imported_run(tmp_path, f"{first} -T 60\n{TWO[0]}\n{second} -T 60\n{TWO[1]}\n", target="pg").trials
        assert fields(trials, "target repeat") == [("pg", 1), ("pg", 1)]
        assert trials[1].point.variables["options"] == options
        assert "-n" not in first or trials[0].point.variables["options"] == "none"
    # other programs and words part them without a target
    for first, second in (
        ("$ /usr/lib/postgresql/15/bin/pgbench", "$ /usr/lib/postgresql/16/bin/pgbench"),
        ("~/pg15$ ./pgbench", "~/pg16$ ./pgbench"),
        ("$ cd /opt/pg15 && ./pgbench", "/opt/pg16$ ./pgbench"),
        ("Before the patch: pgbench", "After the patch: pgbench"),
        ("db1:~$ pgbench", "db2:~$ pgbench"),
    ):
        text = f"{first} -c 8 -T 60\n{TWO[0]}\n{second} -c 8 -T 60\n{TWO[1]}\n"
        found = import_texts(tmp_path, text)
        assert targets(found) == {"out": 1, "out (2)": 1}
        assert fields(found.notes, "id") == ["repeats-undecided-by-text"]
        assert targets(import_texts(tmp_path, text, target="pg")) == {"pg": 2}


def test_clocks_counters_and_equal_programs_part_no_outputs(tmp_path: Path) -> None:
    for first, second in (
        ("[10:03:01] me@db1:~$ pgbench", "[10:04:17] me@db1:~$ pgbench"),
        ("me@db1 1043 $ pgbench", "me@db1 1044 $ pgbench"),
        ("Fri Nov 27 04:28:01 UTC 2026 $ pgbench", "Sat Nov 28 09:28:02 AM CET 2026 $ pgbench"),
        ("$ pgbench", "$ time nohup sudo -iu postgres pgbench"),
        ("$ echo run 1; pgbench", "$ echo run 2; pgbench"),
        ("Run 1: pgbench", "Run 2: pgbench"),
        ("i=1 pgbench", "i=2 pgbench"),
        ("root@3f2a9c1d7b10:/# pgbench", "root@0a7b3c1d7b22:/# pgbench"),
        ("~$ pg16/bin/pgbench", "~/pg16$ bin/pgbench"),
        ("$ /usr/bin/pgbench", "$ pgbench"),
        ("$ PGPASSWORD=a pgbench", "$ PGPASSWORD=b LC_ALL=C pgbench"),
        ("$ docker exec pg pgbench", "$ docker exec -it pg time pgbench"),
    ):
        found = import_texts(tmp_path, f"{first} -c 8 -T 60\n{TWO[0]}\n{second} -c 8 -T 60\n{output(901.5)}\n")
        assert fields(load_run(found.run).trials, "target repeat") == [("out", 1), ("out", 2)]
        assert found.notes == []


def test_what_precedes_sysbench_is_kept(tmp_path: Path) -> None:
    run = "sysbench oltp_read_only --threads=8 --db-driver=pgsql run"
    text = "".join(
        SYSBENCH.format(command=f"$ {prefix} {run}\n", rate="", count=30000, elapsed="60.00")
        for prefix in ("PGOPTIONS='-c x=on' ssh db1", "ssh db1", "ssh db2 time")
    )
    trials = imported_run(tmp_path, text, target="pg").trials
    assert [(trial.target, trial.point.variables.get("options")) for trial in trials] == [
        ("pg, ssh db1", "PGOPTIONS=-c x=on"), ("pg, ssh db1", "none"), ("pg, ssh db2", None),
    ]  # fmt: skip
    # it takes a connection string for a database
    commands = [f"$ {run.replace(' run', '')} --pgsql-db='host={host} user=u' run\n" for host in ("h1", "h2")]
    texts = [SYSBENCH.format(command=each, rate="", count=30000, elapsed="60.00") for each in commands]
    assert fields(imported_run(tmp_path, "".join(texts), target="pg").trials, "target") == ["pg, h1", "pg, h2"]


PARTS = (
    "SQL script 1: {}\n - weight: {} (targets 50.0% of total)\n - 30000 transactions (50.0% of total, tps = 500.0)\n"
    "SQL script 2: b.sql\n - weight: 1 (targets 50.0% of total)\n - 30000 transactions (50.0% of total, tps = 500.0)\n"
)
PARTITIONS = "partition method: hash\nnumber of partitions: 100\nquery mode"
RECONNECTS = output(120.5).replace("without initial connection time", "including reconnection times")
MULTIPLE = output(900.5).replace("<builtin: TPC-B (sort of)>", "multiple scripts")
SYSBENCH = (
    "{command}Running the test with following options:\nNumber of threads: 8\n{rate}\nSQL statistics:\n"
    "    transactions:                        {count}  (500.00 per sec.)\n\n"
    "General statistics:\n    total time:                          {elapsed}s\n"
    "Latency (ms):\n         avg:                                    2.00\n\n"
)
HAMMERDB = (
    "HammerDB CLI v4.8\nVuser 1:Timing test period of {} in minutes\nVuser 1:8 Active Virtual Users configured\n"
    "Vuser 1:TEST RESULT : System achieved 17000 NOPM from 39100 PostgreSQL TPM\n"
)
BENCHBASE = (
    "Results(state=EXIT, nanoSeconds={}083167, measuredRequests={}) = 33.43 requests/sec (throughput), "
    "33.31 requests/sec (goodput)\n"
)


def sysbench(options: str | None = None, *, elapsed: float = 60.0051, count: int | None = None, rate: str = "") -> str:
    command = "" if options is None else f"$ sysbench oltp_read_write {options} --threads=8 run\n"
    number = round(500 * elapsed) if count is None else count
    return SYSBENCH.format(command=command, elapsed=elapsed, count=number, rate=rate)


def tries(number: int) -> str:
    return output(900.5 + number).replace("duration", f"maximum number of tries: {number}\nduration")


WITH_PARTITIONS = output(700.5).replace("query mode", PARTITIONS)
LAGGING = output(90.6).replace("tps", "rate limit schedule lag: avg 3.2 (max 30.1) ms\ntps")


def test_outputs_of_other_loads_are_other_points(tmp_path: Path) -> None:
    for first, second, key, values in (
        (output(900.5), RECONNECTS, "connections", "kept|each transaction"),
        (output(900.5), WITH_PARTITIONS, "partitions", "none|hash, 100"),
        (tries(1), tries(10), "max_tries", "1|10"),
        (output(90.5), LAGGING, "loop", "closed|open"),
        (MULTIPLE + PARTS.format("a", 1), MULTIPLE + PARTS.format("c", 1), "scripts", "a@1, b.sql@1|c@1, b.sql@1"),
        (MULTIPLE + PARTS.format("a", 1), MULTIPLE + PARTS.format("a", 9), "scripts", "a@1, b.sql@1|a@9, b.sql@1"),
        (sysbench(elapsed=60.0051), sysbench(elapsed=600.0123), "duration_s", "60|600"),
        (sysbench("--time=60", elapsed=61.7), sysbench("--time=600", elapsed=600.1), "duration_s", "60|600"),
        (
            *(sysbench(f"--time=0 --events={each}", elapsed=each / 500, count=each) for each in (9000, 20000)),
            "options", "--events=9000|--events=20000",
        ),
        # options that the output shows, too
        (
            f"$ pgbench -c 8 -T 60\n{output(900.5)}", f"$ pgbench -C -c 8 -T 60\n{RECONNECTS}",
            "options", "none|-C",
        ),
        (HAMMERDB.format(5), HAMMERDB.format(60), "duration_s", "300|3600"),
        (BENCHBASE.format("60000", 2005), BENCHBASE.format("300000", 10030), "duration_s", "60|300"),
    ):  # fmt: skip
        trials = imported_run(tmp_path, first, second, target="srv").trials
        assert fields(trials, "repeat") == [1, 1]
        varied = [name for name in trials[0].point.variables if name not in ("tables", "table_size")]
        assert varied == [key]
        assert [trial.point.variables[key] for trial in trials] == values.split("|")
        assert [load[key] for load in fields(trials, "imported.load")] == values.split("|")


def test_what_an_output_does_not_show_parts_no_repeats(tmp_path: Path) -> None:
    for texts in (
        [sysbench(elapsed=60.0051), sysbench(elapsed=61.9), sysbench(elapsed=63.2)],
        # ended by events, or asked for them
        [sysbench(elapsed=each, count=10_000) for each in (20.1, 27.4, 33.8)],
        [sysbench("--time=0 --events=9", elapsed=each, count=9 + round(each)) for each in (20.1, 27.4)],
        # one without a command, without its tries, without parts
        [f"$ pgbench -c 8 -T 60 -L 100\n{output(900.5)}", output(901.5)],
        [output(900.5), tries(1)],
        [MULTIPLE, MULTIPLE.replace("900.5", "901.5") + PARTS.format("a.sql", 1)],
        [BENCHBASE.format("60000", 2005), BENCHBASE.format("60412", 2020)],
    ):
        trials = imported_run(tmp_path, *texts, target="srv").trials
        assert fields(trials, "repeat") == [1, 2, 3][: len(texts)]
        assert fields(trials, "point.variables") == [{}] * len(texts)


def test_every_difference_of_loads_is_a_variable_and_a_load_that_does_not_vary_is_kept(tmp_path: Path) -> None:
    texts = [output(900.5), RECONNECTS.replace("query mode", PARTITIONS), RECONNECTS]
    assert fields(imported_run(tmp_path, *texts, target="srv").trials, "point.variables") == [
        {"connections": "kept", "partitions": "none"},
        {"connections": "each transaction", "partitions": "hash, 100"},
        {"connections": "each transaction", "partitions": "none"},
    ]
    text = f"$ pgbench -c 8 -j 2 -T 60 -L 100\npgbench (16.1)\n{output(900.5)}\n"
    other = sysbench("--time=60 --rate=500 --db-driver=pgsql", rate="Target transaction rate: 500/sec")
    assert fields(imported_run(tmp_path, text, other).trials, "imported.load") == [
        {
            "duration_s": "60", "options": "-L 100", "scripts": "tpcb-like", "loop": "closed", "connections": "kept",
            "partitions": "none",
        },
        {"duration_s": "60", "options": "none", "scripts": "oltp-read-write", "loop": "open", "driver": "pgsql"},
    ]  # fmt: skip


def test_warm_up_runs_are_left_out(tmp_path: Path) -> None:
    for label in ("# warm-up", "=== WARMUP ===", "Warm-up run:", "### Warmup", "прогрев", "warming up the cache"):
        text = f"\n{label}\n\n{output(700.5)}\n=== run 1 ===\n{output(900.5)}\n=== run 2 ===\n{output(901.5)}"
        found = import_texts(tmp_path, text)
        run = load_run(found.run)
        assert fields(run.trials, "summary.tps") == [900.5, 901.5]
        assert len(found.left_out) == 1
        assert "700.5 tps" in found.left_out[0].text
        assert fields([run.manifest], "imported.left_out") == [found.left_out]
    for label in ("No warm-up", "after the warm-up:", "warmup: 30", "without warmup"):
        found = import_texts(tmp_path, f"{label}\n{output(900.5)}")
        assert (found.trials, found.left_out) == (1, [])
    # a first short run of the same command is one
    command = "$ pgbench -c 8 -j 2 -T {}\n"
    runs = [(10, 700.5), (60, 900.5), (60, 901.5)]
    text = "".join(command.format(seconds) + output(tps, duration_s=seconds) for seconds, tps in runs)
    found = import_texts(tmp_path, text)
    assert (found.trials, len(found.left_out)) == (2, 1)
    # a series of lengths has none
    text = "".join(output(900 + seconds, duration_s=seconds) for seconds in (10, 60, 300))
    found = import_texts(tmp_path, text)
    assert (found.trials, found.left_out) == (3, [])
    assert {each["duration_s"] for each in fields(load_run(found.run).trials, "point.variables")} == {"10", "60", "300"}
