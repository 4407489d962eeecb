"""Outputs count as repeats only if nothing between them names a different measurement."""

from collections import Counter
from pathlib import Path

import pytest

from pgdyno.audit import audit
from pgdyno.importers.write import ImportResult, import_files
from pgdyno.store import load_run
from tests.present import present


def output(tps: float, *, clients: int = 8, duration_s: int = 60) -> str:
    return (
        "transaction type: <builtin: TPC-B (sort of)>\nscaling factor: 10\nquery mode: simple\n"
        f"number of clients: {clients}\nnumber of threads: 2\nduration: {duration_s} s\n"
        f"number of transactions actually processed: {round(tps * duration_s)}\n"
        f"tps = {tps:.6f} (without initial connection time)\n"
    )


def imported(tmp_path: Path, *texts: str, names: tuple[str, ...] = (), target: str | None = None) -> ImportResult:
    files = []
    for number, text in enumerate(texts):
        file = tmp_path / (names[number] if names else f"doc{number}.txt")
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
        files.append(file)
    return import_files(files, tmp_path / "runs", target=target)


def targets(result: ImportResult) -> Counter[str]:
    return Counter(trial.target for trial in load_run(result.run).trials)


def test_instances_that_are_named_are_targets(tmp_path: Path) -> None:
    text = "".join(
        f"Instance: {name}\n\n{output(tps)}\n" for name, tps in (("m5", 900.5), ("m6g", 1200.5), ("r7", 35800))
    )
    assert targets(imported(tmp_path, text)) == {"m5": 1, "m6g": 1, "r7": 1}


@pytest.mark.parametrize(
    "label",
    ["Instance type = {}", "**Instance:** {}", "## Instance: {}", "=== {} ===", "[{}]", "{}\n======", "- Server: {}"],
)
def test_names_have_many_forms(label: str, tmp_path: Path) -> None:
    text = "".join(f"\n{label.format(name)}\n\n{output(tps)}\n" for name, tps in (("alpha", 900.5), ("beta", 1200.5)))
    assert len(targets(imported(tmp_path, text))) == 2


def test_versions_that_are_named_are_targets(tmp_path: Path) -> None:
    text = "".join(f"Version: {name}\n{output(tps)}\n" for name, tps in (("15.4", 900.5), ("16.1", 1200.5)))
    assert len(targets(imported(tmp_path, text))) == 2
    banners = "".join(f"pgbench ({name})\n{output(tps)}\n" for name, tps in (("15.4", 900.5), ("16.1", 1200.5)))
    assert len(targets(imported(tmp_path, banners))) == 2
    servers = "".join(
        f"pgbench (16.1, server {name})\n{output(tps)}\n" for name, tps in (("15.4", 900.5), ("16.1", 99.5))
    )
    assert len(targets(imported(tmp_path, servers))) == 2


def test_outputs_with_nothing_between_them_are_repeats(tmp_path: Path) -> None:
    text = "# one\n\n$ pgbench -c 8 -j 2 -T 60\n" + "".join(output(tps) for tps in (900.5, 901.5, 902.5))
    found = imported(tmp_path, text)
    assert targets(found) == {"one": 3}
    assert [trial.repeat for trial in load_run(found.run).trials] == [1, 2, 3]
    assert found.notes == []


@pytest.mark.parametrize(
    "label", ["run {}", "Run #{}:", "--- run {} ---", "iteration {} of 3", "{}.", "real 0m60.0{}s", "2nd run"]
)
def test_words_that_count_repeats_name_no_target(label: str, tmp_path: Path) -> None:
    text = "".join(f"{label.format(number)}\n{output(900 + number)}\n" for number in (1, 2, 3))
    assert list(targets(imported(tmp_path, text)).values()) == [3]


def test_text_between_outputs_parts_them_unless_a_target_is_given(tmp_path: Path) -> None:
    text = f"{output(900.5)}\nNow with larger shared_buffers:\n\n{output(1200.5)}"
    found = imported(tmp_path, text)
    assert targets(found) == {"doc0": 1, "doc0 (2)": 1}
    assert [note.id for note in found.notes] == ["repeats-undecided-by-text"]
    assert "--target NAME" in str(found.notes[0])
    given = imported(tmp_path, text, target="pg17")
    assert targets(given) == {"pg17": 2}
    assert given.notes == []


def test_text_between_points_of_a_sweep_parts_nothing(tmp_path: Path) -> None:
    text = "".join(f"With {clients} clients:\n\n{output(100 * clients, clients=clients)}\n" for clients in (1, 2, 4, 8))
    assert targets(imported(tmp_path, text)) == {"doc0": 4}


def test_headings_of_the_same_words_below_others_are_not_one_target(tmp_path: Path) -> None:
    text = "".join(f"# {name}\n\n## Results\n\n{output(tps)}\n" for name, tps in (("EC2", 900.5), ("RDS", 1200.5)))
    assert targets(imported(tmp_path, text)) == {"Results, EC2": 1, "Results, RDS": 1}


def test_files_are_targets_of_their_own_unless_one_is_given(tmp_path: Path) -> None:
    texts = [f"# Results\n\n{output(tps)}" for tps in (900.5, 1200.5, 35800.5)]
    apart = imported(tmp_path, *texts)
    assert targets(apart) == {"doc0, Results": 1, "doc1, Results": 1, "doc2, Results": 1}
    folders = imported(tmp_path, *texts[:2], names=("aws/out.txt", "gcp/out.txt"))
    assert targets(folders) == {"aws/out, Results": 1, "gcp/out, Results": 1}
    same = imported(tmp_path, *[output(tps) for tps in (900.5, 901.5)], target="pg17")
    assert targets(same) == {"pg17": 2}
    assert [trial.repeat for trial in load_run(same.run).trials] == [1, 2]


def test_files_that_differ_in_their_suffix_only_are_targets_of_their_own(tmp_path: Path) -> None:
    texts = [output(tps) for tps in (900.5, 1200.5)]
    assert targets(imported(tmp_path, *texts, names=("pg16.4", "pg16.6"))) == {"pg16.4": 1, "pg16.6": 1}
    mixed = imported(tmp_path, *texts, texts[0].replace("900", "901"), names=("a/b.before", "a/b.after", "c/b.after"))
    assert targets(mixed) == {"b.before": 1, "a/b.after": 1, "c/b.after": 1}


def test_csv_files_without_a_target_are_targets_of_their_own_unless_one_is_given(tmp_path: Path) -> None:
    tables = [f"clients,tps\n8,{tps}\n" for tps in (900.5, 1200.5)]
    names = ("a/results.csv", "b/results.csv")
    assert targets(imported(tmp_path, *tables, names=names)) == {"a/results": 1, "b/results": 1}
    assert targets(imported(tmp_path, *tables, names=names, target="pg17")) == {"pg17": 2}
    named = [f"target,clients,tps\npg17,8,{tps}\n" for tps in (900.5, 1200.5)]
    assert targets(imported(tmp_path, *named, names=names)) == {"pg17": 2}


def test_csv_rows_that_differ_in_an_unknown_column_of_words_are_no_repeats(tmp_path: Path) -> None:
    table = "target,clients,tps,host,pg_version,date,run,cpu\n" + "".join(
        f"pg17,8,{tps},{host},{version},2026-11-{day} 12:00:00,run {day},3{day}.5 %\n"
        for tps, host, version, day in ((900, "a", "16.4", 10), (901, "a", "16.4", 11), (902, "b", "17.2", 12))
    )
    trials = load_run(imported(tmp_path, table, names=("t.csv",)).run).trials
    assert [trial.repeat for trial in trials] == [1, 2, 1]
    assert trials[2].point.variables == {"host": "b", "pg_version": "17.2"}


@pytest.mark.parametrize(
    "database", ["postgres://u:secret@{}/db", "'postgres://u@{}/db?sslmode=require'", '"host={} dbname=db"']
)
@pytest.mark.parametrize("command", ["pgbench {} -c 4 -T 10", "pgbench -c 4 -T 10 {}"])
def test_a_connection_string_names_a_target_wherever_it_is(command: str, database: str, tmp_path: Path) -> None:
    summary = (
        "transaction type: <builtin: select only>\nscaling factor: 1\nquery mode: simple\nnumber of clients: 4\n"
        "number of threads: 1\nduration: 10 s\nnumber of transactions actually processed: 1000\n"
        "latency average = 40.000 ms\ntps = 100.000000 (without initial connection time)\n"
    )
    texts = [f"$ {command.format(database.format(host))}\n{summary}" for host in ("db1", "db2")]
    (tmp_path / "report.txt").write_text("".join(texts))
    run = load_run(import_files([tmp_path / "report.txt"], tmp_path / "runs", target="pg").run)
    assert [trial.target for trial in run.trials] == ["pg, db1:db", "pg, db2:db"]
    assert "secret" not in (run.folder.path / "manifest.json").read_text()


def test_servers_of_command_lines_are_targets(tmp_path: Path) -> None:
    text = "".join(
        f"$ pgbench -h {host} -c 8 -T 60 bench\n{output(tps)}\n" for host, tps in (("a", 900.5), ("b", 1200.5))
    )
    assert targets(imported(tmp_path, text)) == {"doc0, a:bench": 1, "doc0, b:bench": 1}


@pytest.mark.parametrize(
    ("first", "second", "names"),
    [
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
    ],
)
def test_what_precedes_a_command_names_targets_too(first: str, second: str, names: list[str], tmp_path: Path) -> None:
    text = f"{first} -c 8 -T 60 bench\n{output(900.5)}\n{output(901.5)}\n{second} -c 8 -T 60 bench\n{output(1200.5)}\n"
    assert targets(imported(tmp_path, text, target="pg")) == {names[0]: 2, names[1]: 1}
    trial = load_run(imported(tmp_path, text).run).trials[0]
    assert present(trial.imported).command == f"{first.removeprefix('$ ')} -c 8 -T 60 bench"


@pytest.mark.parametrize(
    ("first", "second", "options"),
    [
        ("$ PGOPTIONS='-c x=on' pgbench -c 8", "$ PGOPTIONS='-c x=off' pgbench -c 8", "PGOPTIONS=-c x=off"),
        ("$ pgbench -c 8", "$ sudo -u postgres PGSSLMODE=disable pgbench -c 8", "PGSSLMODE=disable"),
        ("$ taskset -c 0-3 pgbench -c 8", "$ numactl -N 0 sudo pgbench -c 8", "numactl -N 0"),
        ("$ pgbench -c 8 'options=-cx=on'", "$ pgbench -c 8 'options=-cx=off'", "options=-cx=off"),
        ("$ pgbench -c 8 'host=d sslmode=disable'", "$ pgbench -c 8 'host=d sslmode=require'", "sslmode=require"),
        ("$ pgbench -c 8", "$ pgbench -c 8 postgresql:///?options=-c%20work_mem%3D4MB", "options=-c work_mem=4MB"),
    ],
)
def test_other_variables_and_options_are_other_points(first: str, second: str, options: str, tmp_path: Path) -> None:
    text = f"{first} -T 60\n{output(900.5)}\n{second} -T 60\n{output(1200.5)}\n"
    trials = load_run(imported(tmp_path, text, target="pg").run).trials
    assert [trial.target for trial in trials] == ["pg", "pg"]
    assert [trial.repeat for trial in trials] == [1, 1]
    assert trials[1].point.variables["options"] == options


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("$ /usr/lib/postgresql/15/bin/pgbench", "$ /usr/lib/postgresql/16/bin/pgbench"),
        ("~/pg15$ ./pgbench", "~/pg16$ ./pgbench"),
        ("$ cd /opt/pg15 && ./pgbench", "/opt/pg16$ ./pgbench"),
        ("Before the patch: pgbench", "After the patch: pgbench"),
        ("db1:~$ pgbench", "db2:~$ pgbench"),
    ],
)
def test_other_programs_and_words_part_outputs_without_a_target(first: str, second: str, tmp_path: Path) -> None:
    text = f"{first} -c 8 -T 60\n{output(900.5)}\n{second} -c 8 -T 60\n{output(1200.5)}\n"
    found = imported(tmp_path, text)
    assert targets(found) == {"doc0": 1, "doc0 (2)": 1}
    assert [note.id for note in found.notes] == ["repeats-undecided-by-text"]
    assert targets(imported(tmp_path, text, target="pg")) == {"pg": 2}


@pytest.mark.parametrize(
    ("first", "second"),
    [
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
    ],
)
def test_clocks_counters_and_equal_programs_part_no_outputs(first: str, second: str, tmp_path: Path) -> None:
    text = f"{first} -c 8 -T 60\n{output(900.5)}\n{second} -c 8 -T 60\n{output(901.5)}\n"
    found = imported(tmp_path, text)
    assert targets(found) == {"doc0": 2}
    assert [trial.repeat for trial in load_run(found.run).trials] == [1, 2]
    assert found.notes == []


def test_what_precedes_sysbench_is_kept(tmp_path: Path) -> None:
    run = "sysbench oltp_read_only --threads=8 --db-driver=pgsql run"
    text = "".join(
        SYSBENCH.format(command=f"$ {prefix} {run}\n", rate="", count=30000, elapsed="60.00")
        for prefix in ("PGOPTIONS='-c x=on' ssh db1", "ssh db1", "ssh db2 time")
    )
    trials = load_run(imported(tmp_path, text, target="pg").run).trials
    assert [trial.target for trial in trials] == ["pg, ssh db1", "pg, ssh db1", "pg, ssh db2"]
    assert [trial.point.variables.get("options") for trial in trials] == ["PGOPTIONS=-c x=on", "none", None]


def test_other_command_lines_are_other_points(tmp_path: Path) -> None:
    text = "".join(
        f"$ pgbench {options} -c 8 -T 60\n{output(tps)}\n" for options, tps in (("-n", 900.5), ("-C", 120.5))
    )
    trials = load_run(imported(tmp_path, text).run).trials
    assert [trial.repeat for trial in trials] == [1, 1]
    assert [trial.point.variables["options"] for trial in trials] == ["none", "-C"]


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


@pytest.mark.parametrize(
    ("texts", "key", "values"),
    [
        pytest.param(
            [output(900.5), RECONNECTS],
            "connections", ["kept", "each transaction"], id="connections",
        ),
        pytest.param(
            [output(900.5), output(700.5).replace("query mode", PARTITIONS)],
            "partitions", ["none", "hash, 100"], id="partitions",
        ),
        pytest.param(
            [
                output(900.5 + tries).replace("duration", f"maximum number of tries: {tries}\nduration")
                for tries in (1, 10)
            ],
            "max_tries", ["1", "10"], id="tries",
        ),
        pytest.param(
            [output(90.5), output(90.6).replace("tps", "rate limit schedule lag: avg 3.2 (max 30.1) ms\ntps")],
            "loop", ["closed", "open"], id="loop",
        ),
        pytest.param(
            [MULTIPLE + PARTS.format("a.sql", 1), MULTIPLE + PARTS.format("c.sql", 1)],
            "scripts", ["a.sql@1, b.sql@1", "c.sql@1, b.sql@1"], id="scripts",
        ),
        pytest.param(
            [MULTIPLE + PARTS.format("a.sql", 1), MULTIPLE + PARTS.format("a.sql", 9)],
            "scripts", ["a.sql@1, b.sql@1", "a.sql@9, b.sql@1"], id="weights",
        ),
        pytest.param(
            [sysbench(elapsed=60.0051), sysbench(elapsed=600.0123)], "duration_s", ["60", "600"], id="sysbench-elapsed"
        ),
        pytest.param(
            [sysbench("--time=60", elapsed=61.7), sysbench("--time=600", elapsed=600.1)],
            "duration_s", ["60", "600"], id="sysbench-time",
        ),
        pytest.param(
            [sysbench(f"--time=0 --events={events}", elapsed=events / 500, count=events) for events in (9000, 20000)],
            "options", ["--events=9000", "--events=20000"], id="events",
        ),
        pytest.param(
            [
                f"$ pgbench -c 8 -T 60\n{output(900.5)}",
                f"$ pgbench -C -c 8 -T 60\n{RECONNECTS}",
            ],
            "options", ["none", "-C"], id="options that the output shows, too",
        ),
        pytest.param([HAMMERDB.format(5), HAMMERDB.format(60)], "duration_s", ["300", "3600"], id="hammerdb"),
        pytest.param(
            [BENCHBASE.format("60000", 2005), BENCHBASE.format("300000", 10030)],
            "duration_s", ["60", "300"], id="benchbase",
        ),
    ],
)  # fmt: skip
def test_outputs_of_other_loads_are_other_points(texts: list[str], key: str, values: list[str], tmp_path: Path) -> None:
    trials = load_run(imported(tmp_path, *texts, target="srv").run).trials
    assert [trial.repeat for trial in trials] == [1, 1]
    varied = [name for name in trials[0].point.variables if name not in ("tables", "table_size")]
    assert varied == [key]
    assert [trial.point.variables[key] for trial in trials] == values
    assert [trial.imported.load[key] for trial in trials if trial.imported] == values


@pytest.mark.parametrize(
    "texts",
    [
        pytest.param([sysbench(elapsed=60.0051), sysbench(elapsed=61.9), sysbench(elapsed=63.2)], id="elapsed"),
        pytest.param([sysbench(elapsed=each, count=10_000) for each in (20.1, 27.4, 33.8)], id="ended by events"),
        pytest.param(
            [sysbench("--time=0 --events=9", elapsed=each, count=9 + round(each)) for each in (20.1, 27.4)],
            id="asked for events",
        ),
        pytest.param([f"$ pgbench -c 8 -T 60 -L 100\n{output(900.5)}", output(901.5)], id="one without a command"),
        pytest.param(
            [output(900.5), output(901.5).replace("duration", "maximum number of tries: 1\nduration")],
            id="one without its tries",
        ),
        pytest.param([MULTIPLE, MULTIPLE.replace("900.5", "901.5") + PARTS.format("a.sql", 1)], id="one without parts"),
        pytest.param([BENCHBASE.format("60000", 2005), BENCHBASE.format("60412", 2020)], id="benchbase"),
    ],
)
def test_what_an_output_does_not_show_parts_no_repeats(texts: list[str], tmp_path: Path) -> None:
    trials = load_run(imported(tmp_path, *texts, target="srv").run).trials
    assert [trial.repeat for trial in trials] == [1, 2, 3][: len(texts)]
    assert [trial.point.variables for trial in trials] == [{}] * len(texts)


def test_every_difference_of_loads_is_a_variable(tmp_path: Path) -> None:
    texts = [output(900.5), RECONNECTS.replace("query mode", PARTITIONS), RECONNECTS]
    trials = load_run(imported(tmp_path, *texts, target="srv").run).trials
    assert [trial.point.variables for trial in trials] == [
        {"connections": "kept", "partitions": "none"},
        {"connections": "each transaction", "partitions": "hash, 100"},
        {"connections": "each transaction", "partitions": "none"},
    ]


def test_the_load_is_kept_if_nothing_varies(tmp_path: Path) -> None:
    text = f"$ pgbench -c 8 -j 2 -T 60 -L 100\npgbench (16.1)\n{output(900.5)}\n"
    texts = [text, sysbench("--time=60 --rate=500 --db-driver=pgsql", rate="Target transaction rate: 500/sec")]
    pgbench, other = load_run(imported(tmp_path, *texts).run).trials
    assert present(pgbench.imported).load == {
        "duration_s": "60", "options": "-L 100", "scripts": "tpcb-like", "loop": "closed", "connections": "kept",
        "partitions": "none",
    }  # fmt: skip
    assert present(other.imported).load == {
        "duration_s": "60", "options": "none", "scripts": "oltp-read-write", "loop": "open", "driver": "pgsql",
    }  # fmt: skip


@pytest.mark.parametrize(
    "label", ["# warm-up", "=== WARMUP ===", "Warm-up run:", "### Warmup", "прогрев", "warming up the cache"]
)
def test_warm_up_runs_are_left_out(label: str, tmp_path: Path) -> None:
    text = f"\n{label}\n\n{output(700.5)}\n=== run 1 ===\n{output(900.5)}\n=== run 2 ===\n{output(901.5)}"
    found = imported(tmp_path, text)
    assert [trial.summary.tps for trial in load_run(found.run).trials if trial.summary] == [900.5, 901.5]
    assert len(found.left_out) == 1
    assert "700.5 tps" in found.left_out[0].text
    assert load_run(found.run).manifest.imported.left_out == found.left_out  # type: ignore[union-attr]


@pytest.mark.parametrize("label", ["No warm-up", "after the warm-up:", "warmup: 30", "without warmup"])
def test_words_about_warming_up_are_no_warm_up(label: str, tmp_path: Path) -> None:
    found = imported(tmp_path, f"{label}\n{output(900.5)}")
    assert (found.trials, found.left_out) == (1, [])


def test_a_first_short_run_of_the_same_command_is_a_warm_up(tmp_path: Path) -> None:
    command = "$ pgbench -c 8 -j 2 -T {}\n"
    runs = [(10, 700.5), (60, 900.5), (60, 901.5)]
    text = "".join(command.format(seconds) + output(tps, duration_s=seconds) for seconds, tps in runs)
    found = imported(tmp_path, text)
    assert (found.trials, len(found.left_out)) == (2, 1)


def test_a_series_of_lengths_has_no_warm_up(tmp_path: Path) -> None:
    text = "".join(output(900 + seconds, duration_s=seconds) for seconds in (10, 60, 300))
    found = imported(tmp_path, text)
    assert (found.trials, found.left_out) == (3, [])
    assert {trial.point.variables["duration_s"] for trial in load_run(found.run).trials} == {"10", "60", "300"}


def test_logs_of_the_same_name_are_targets_of_their_own_unless_one_is_given(tmp_path: Path) -> None:
    lines = "".join(f"0 {number} 500 0 {1_700_000_000 + number} 5\n" for number in range(5))
    files = [tmp_path / folder / "pgbench_log.7" for folder in ("aws", "gcp")]
    for file in files:
        file.parent.mkdir()
        file.write_text(lines, encoding="utf-8")
    assert targets(import_files(files, tmp_path / "runs")) == {"aws/pgbench_log.7": 1, "gcp/pgbench_log.7": 1}
    given = load_run(import_files(files, tmp_path / "runs", target="pg17").run)
    assert [(trial.target, trial.repeat) for trial in given.trials] == [("pg17", 1), ("pg17", 2)]


def test_the_remedy_for_few_repeats_is_no_key_of_a_plan_that_an_import_does_not_have(tmp_path: Path) -> None:
    run = load_run(imported(tmp_path, output(900.5), output(910.5), target="db").run)
    (finding,) = (each for each in audit(run) if each.rule == "no-repeats")
    assert "points have 2 trials" in finding.message
    assert finding.advice == "repeat every point more often"
