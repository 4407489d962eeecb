"""A run for each rule of the audit about which it speaks, and one about which it does not."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from pgdyno.audit import Severity
from pgdyno.audit.subject import AuditRun
from pgdyno.records import Check, CheckVerdict, DuetRecord, ErrorCount, Likeness, Outcome, ReplayFigures, ScriptSummary
from tests.unit.audit_disturbed import (
    NOISE,
    cold,
    counted,
    failing,
    hits,
    lagging,
    on_host,
    planned,
    pooled,
    ran,
    rated,
    rerun,
    returning,
    sized,
)
from tests.unit.audit_sample import (
    OTHER,
    ROW,
    FakeRun,
    Row,
    by_hosts,
    changed,
    counting,
    dipping,
    each_second,
    indexes_of_b,
    on_disks,
    own,
    print_of_b,
    printed,
    probed,
    quiet_looks,
    steady_probe,
    threaded,
    way,
)

NOTE, CAUTION, INVALID = Severity.NOTE, Severity.CAUTION, Severity.INVALID
IDLE = Row(figures={"tps": 0.0, "latency_mean_ms": 0.0, "latency_max_ms": 0.0, "transactions": 0, "duration_s": 60.0})
TMPFS = Check(id="storage.file-system", verdict=CheckVerdict.WARNING, found="data lie on tmpfs", means="no disk")
DISK = Check(id="storage.file-system", verdict=CheckVerdict.GOOD, found="data lie on ext4")
HPET = Check(id="clock.source", verdict=CheckVerdict.WARNING, found="hpet", means="slow")
TSC = Check(id="clock.source", verdict=CheckVerdict.GOOD, found="tsc")
INCL = Row("x, incl. conn", 26, {"tps": 400.0}, {"rows": "incl. conn", "ratio": "1:1"})
EXCL = Row("x, excl. conn", 26, {"tps": 420.0}, {"rows": "excl. conn", "ratio": "1:1"})
BRANCHES = (("UPDATE pgbench_branches SET bbalance = 1", 4.0), ("END;", 6.0))


def side_by_side(*hosts: str) -> list[Row]:
    """Two tables of two targets, one on r5.large or on `hosts`, the other on r5.12xlarge."""
    here = [Row(name, 8, {"tps": 800.0 + at}, {"host": hosts[at % len(hosts)]}, line=1) for at, name in enumerate("ab")]
    return [*here, *(Row(name, 8, {"tps": 900.0}, {"host": "r5.12xlarge"}, line=9) for name in "cd")]


GOVERNOR = Check(id="cpu.governor", verdict=CheckVerdict.WARNING, found="powersave", means="slow", change="cpupower …")
REFUSED = ErrorCount(sqlstate="53300", message="sorry, too many clients already", count=7000, refused=True)
PRICED = {"price": {"currency": "EUR", "date": "2026-11-01", "years": 3, "target": {"a": {"hourly": [{"amount": 1}]}}}}


def mixed(share: float, done: int = 600_000) -> dict[str, object]:
    """Two scripts of the same weight, of which the first has `share` of the transactions."""
    first = round(share * done)
    scripts = [
        ScriptSummary(id=at, name=name, weight=1, succeeded=count, failed=0, skipped=0)
        for at, (name, count) in enumerate((("read", first), ("write", done - first)))
    ]
    return {"scripts": scripts}


def caught(errors: int, retries: int = 0) -> dict[str, object]:
    """Returns figures of a Lua script that ignores errors, `retries` of which began an event again."""
    counts = {"reads": 600_000, "writes": 0, "others": 0, "ignored_errors": errors, "reconnects": 0}
    return {"statements": counts, "retries": retries}


def swapping_host(swapped: int) -> FakeRun:
    """Returns trials in whose measured part the host swaps so many bytes."""
    return probed(own(), lambda _: each_second(60.0, "paging", swapped_in=0.0, swapped_out=swapped / 60))


def copied() -> FakeRun:
    """Returns trials that all have the latencies of the first."""
    first = own().trials[0].summary
    return changed(own(), lambda _: {"summary": {"latency_ns": first.latency_ns if first else None}})


def cut_short(seconds: float) -> FakeRun:
    """Returns trials of 60 s of which one measured only so long."""
    return changed(own(), lambda trial: {"summary": {"measured_s": seconds if trial.number == 3 else 60.0}})


def by_default(a: str, b: str) -> FakeRun:
    """Returns trials of two targets whose effective_io_concurrency nobody changed."""
    return replace(own(), server={
        trial.number: {"effective_io_concurrency": a if trial.target == "a" else b} for trial in own().trials
    })  # fmt: skip


def drained(run: FakeRun, drain_s: float) -> FakeRun:
    """Returns `run` with trials whose last transactions ended `drain_s` after the time that was asked for."""
    return changed(run, lambda trial: {"duration_s": trial.duration_s and trial.duration_s - drain_s})


def like_capture(difference: float) -> FakeRun:
    """A run whose load has a class of statements with this difference of its share."""
    likeness = Likeness(captured_calls=10, captured_per_s=1, calls=10, classes=[], largest_difference=difference)
    return changed(own(), lambda _: {"likeness": likeness})


def true_replay(disagreed: int) -> FakeRun:
    """A replay of 100 statements, of which so many had another result than in the capture."""
    replay = ReplayFigures(
        sessions=1, sessions_begun=1, sessions_lost=0, statements=100, done=100, not_started=0,
        disagreements={"new_errors": disagreed},
    )  # fmt: skip
    likeness = Likeness(
        captured_calls=100, captured_per_s=1, calls=100, classes=[], largest_difference=0.0, true_to=0.95
    )
    return changed(own(), lambda _: {"likeness": likeness, "summary": {"replay": replay}})


def both(build: Callable[[Any], AuditRun], triggers: object, nearly: object) -> tuple[AuditRun, AuditRun]:
    return build(triggers), build(nearly)


CASES: list[tuple[str, Severity, AuditRun, AuditRun]] = [
    # rule, severity, what triggers it, what nearly does
    ("littles-law", CAUTION, own(latency={"mean": 0.42}), own(latency={"mean": 0.407})),
    # clients that are done wait for a transaction of 10 s after a trial of 50 s: 60 s are measured
    ("littles-law", INVALID, own(latency={"mean": 0.34}), drained(own(latency={"mean": 0.34}), 10.0)),
    ("littles-law", INVALID, printed(ROW.but(latency_mean_ms=20.0)), printed(ROW.but(latency_mean_ms=10.19))),
    # 0.5 %, a transaction of 90 ms after the end, and half of the last digit of the length
    ("arithmetic", CAUTION, printed(ROW.but(transactions=48_400)), printed(ROW.but(transactions=48_300))),
    # pgbench connects within the length that it prints, and leaves that out of the rate
    (
        "arithmetic",
        CAUTION,
        printed(replace(ROW, tool="pgbench").but(transactions=47_500)),
        printed(replace(ROW, tool="pgbench").but(transactions=47_500, connect_ms=600)),
    ),
    ("arithmetic", INVALID, printed(ROW.but(latency_p95_ms=92.0)), printed(ROW.but(latency_p95_ms=91.0))),
    ("arithmetic", CAUTION, printed(ROW, claims=[(0.11, 0.1048)]), printed(ROW, claims=[(0.11, 0.1051)])),
    (
        "arithmetic",
        CAUTION,
        printed(replace(ROW, statements=(("BEGIN;", 1.0), ("END;", 8.4)))),
        printed(replace(ROW, statements=(("BEGIN;", 1.0), ("END;", 8.6)))),
    ),
    ("arithmetic", CAUTION, *both(lambda x: printed(ROW.but(reads=700, writes=200, others=100, qps=x)), 17.0, 16.7)),
    ("identical-rows", INVALID, printed(ROW, replace(ROW, target="b")), printed(ROW, OTHER)),
    ("unlike-capture", CAUTION, like_capture(0.011), like_capture(0.009)),
    ("unlike-capture", INVALID, true_replay(6), true_replay(0)),
    (
        "identical-rows",
        CAUTION,
        printed(*[Row(name, n, {"tps": float(n)}) for name in ("a", "b") for n in (8, 16)]),
        printed(*[Row(name, 8, {"tps": 8.0}) for name in ("a", "b")]),
    ),
    # one output twice, as repeats of a point; of four trials without a transaction, all figures are equal
    ("identical-rows", INVALID, printed(ROW, ROW), printed(ROW, ROW.but(latency_mean_ms=10.01))),
    ("identical-rows", INVALID, printed(ROW, ROW), printed(*[IDLE] * 4)),
    # one row under two numbers of clients
    ("identical-rows", INVALID, printed(ROW, replace(ROW, clients=16)), printed(ROW, replace(OTHER, clients=16))),
    (
        "identical-rows",
        CAUTION,
        printed(*[Row("a", n, {"tps": 7209.4312}) for n in (512, 1024)]),
        printed(*[Row("a", n, {"tps": 7209.431}) for n in (512, 1024)]),
    ),
    ("network-floor", INVALID, own(floor_b_ms=1.3, latency={"p50": 1.3}), own(floor_b_ms=0.29)),
    ("network-floor", CAUTION, own(floor_b_ms=0.7), own(floor_b_ms=0.29)),
    ("network-floor", CAUTION, own(floor_b_ms=0.5), own(floor_b_ms=0.19)),
    # what was measured stands before what latencies hint at; a statement a transaction
    (
        "network-floor",
        INVALID,
        own(ways=lambda _, name: way(300 if name == "a" else 1400)),
        own(floor_b_ms=1.3, latency={"p50": 1.3}, ways=lambda *_: way(300)),
    ),
    (
        "network-floor",
        CAUTION,
        own(ways=lambda _, name: way(300 if name == "a" else 850)),
        own(ways=lambda _, name: way(16 if name == "a" else 62)),
    ),
    # many times as far is another way, however short both are
    (
        "network-floor",
        CAUTION,
        own(ways=lambda _, name: way(100 if name == "a" else 500)),
        own(ways=lambda _, name: way(200 if name == "a" else 590)),
    ),
    (
        "network-floor",
        CAUTION,
        own(kind_b="rds", ways=lambda number, name: way(1500 if (number, name) == (4, "b") else 300)),
        own(ways=lambda number, _: way(1500 if number == 3 else 300)),
    ),
    # the busiest worker counts, whatever the others do
    ("generator-limited", CAUTION, own(workers=[0.2, 0.75]), own(workers=[0.69, 0.69])),
    ("generator-limited", INVALID, own(workers=[0.2, 0.95]), own(workers=[0.69, 0.69])),
    ("worker-added", CAUTION, own(worker_added=1), own()),
    ("generator-limited", CAUTION, *both(lambda x: by_hosts(own(), (4, 5_000.0, 0.3), (4, 5_000.0, x)), 0.75, 0.69)),
    (
        "load-imbalance",
        CAUTION,
        by_hosts(own(workers=[0.5, 0.5]), (4, 5_000.0, 0.5), (3, 2_600.0, 0.5)),
        by_hosts(own(workers=[0.5, 0.5]), (4, 5_000.0, 0.5), (3, 2_700.0, 0.5)),
    ),
    # one that is cut off from the server does nothing at all
    ("load-imbalance", CAUTION, by_hosts(own(), (4, 5_000.0, 0.3), (4, 0.0, 0.0)), own()),
    (
        "load-imbalance",
        NOTE,
        by_hosts(own(), (4, 5_000.0, 0.3), (4, 5_000.0, 0.3), late_us=2_100_000),
        by_hosts(own(), (4, 5_000.0, 0.3), (4, 5_000.0, 0.3), late_us=1_900_000),
    ),
    ("generator-on-server", NOTE, own(), own(targets=[])),
    (
        "generator-on-server",
        NOTE,
        printed(replace(ROW, command="pgbench -h localhost -c 8 -T 60 bench")),
        printed(replace(ROW, command="pgbench -h db.example -c 8 -T 60 bench")),
    ),
    (
        "generator-on-server",
        NOTE,
        printed(replace(ROW, command="pgbench -c 8 -T 60 bench")),
        printed(replace(ROW, command="pgbench -c 8 -T 60 bench"), facts={"PGHOST": ["PGHOST=db.example"]}),
    ),
    (
        "generator-on-server",
        NOTE,
        printed(ROW, facts={"prompt of a server": ["postgres@dbhost:~$ pgbench -c 8 bench"]}),
        printed(replace(ROW, command="pgbench -c 8 'host=$DB dbname=bench'")),
    ),
    (
        "hardware-differs",
        CAUTION,
        printed(replace(ROW, words={"host": "r5.2xlarge"}), replace(OTHER, words={"host": "r5.12xlarge"})),
        printed(replace(ROW, words={"host": "r5.2xlarge"}), replace(OTHER, words={"host": "r5.2xlarge"})),
    ),
    # two tables with two targets on each line: only those on one line are compared
    ("hardware-differs", CAUTION, printed(*side_by_side("r5.large", "r6.large")), printed(*side_by_side("r5.large"))),
    ("settings-differ", CAUTION, own(changed_b={"shared_buffers": "2GB"}), own(changed_b={"port": "5433"})),
    ("default-differs", CAUTION, by_default("16", "1"), by_default("16", "16")),
    ("settings-differ", NOTE, own(changed_b={"work_mem": "8MB"}), own(changed_b={"cluster_name": "b"})),
    (
        "settings-differ",
        CAUTION,
        printed(ROW, facts={"shared_buffers": ["shared_buffers\t40GB\t16GB"]}),
        printed(ROW, facts={"shared_buffers": ["shared_buffers\t16GB\t16GB"]}),
    ),
    ("version-differs", NOTE, own(versions=("17.2", "18.6")), own()),
    ("durability", CAUTION, own(workload="tpcb-like", settings={"fsync": "off"}), own(workload="tpcb-like")),
    ("durability", NOTE, own(settings={"fsync": "off"}), own(settings={"synchronous_commit": "remote_apply"})),
    ("durability", INVALID, own(only_b={"synchronous_commit": "off"}), own(only_b={"synchronous_commit": "local"})),
    (
        "durability",
        CAUTION,
        own(only_b={"synchronous_commit": "off"}, point={"settings": {"synchronous_commit": "off"}}),
        own(only_b={"synchronous_commit": "local"}, point={"settings": {"synchronous_commit": "local"}}),
    ),
    ("durability", CAUTION, own(preflight=[TMPFS]), own(preflight=[DISK])),
    ("durability", CAUTION, *both(lambda x: printed(ROW, facts={"fsync": [x]}), "fsync = off", "fsync = on")),
    ("cache-resident", NOTE, own(dataset_bytes=1 << 30), own(dataset_bytes=5 << 30)),
    ("autovacuum-off", CAUTION, own(workload="tpcb-like", settings={"autovacuum": "off"}), own(workload="tpcb-like")),
    (
        "autovacuum-off",
        CAUTION,
        printed(ROW, facts={"autovacuum": ["autovacuum\toff\toff"]}),
        printed(ROW, facts={"autovacuum": ["autovacuum\ton\ton"]}),
    ),
    ("checkpoint-cycle", NOTE, own(workload="tpcb-like", length_s=599), own(workload="tpcb-like", length_s=600)),
    ("unsteady", CAUTION, own(seconds=[9000.0] * 40 + [6700.0] * 20), own(seconds=[9000.0] * 40 + [6800.0] * 20)),
    ("too-short", CAUTION, cut_short(53.0), cut_short(55.0)),
    ("arithmetic", CAUTION, own(summary={"succeeded": 602_000}), own(summary={"succeeded": 600_400})),
    ("identical-rows", INVALID, copied(), own()),
    ("too-short", CAUTION, own(length_s=9.0), own(length_s=9.9)),
    ("too-short", CAUTION, printed(ROW.but(duration_s=59.0)), printed(ROW.but(duration_s=59.6))),
    ("no-repeats", CAUTION, own(repeats=1), own(repeats=6)),
    ("no-repeats", NOTE, own(repeats=5), own(repeats=6)),
    ("order-bias", CAUTION, own(orders="aabb"), own(orders="abba")),
    ("errors", NOTE, own(summary={"failed": 1}), own()),
    ("errors", CAUTION, own(summary={"failed": 700}), own()),
    ("errors", INVALID, own(summary={"failed": 7000}), own()),
    ("errors", INVALID, own(summary={"clients_aborted": 1}), own()),
    ("errors", CAUTION, own(summary={"failed": 7000, "errors": [REFUSED]}), own()),
    ("errors", NOTE, own(summary=caught(9)), own(summary=caught(9, retries=9))),
    ("errors", CAUTION, own(summary=caught(700)), own(summary=caught(0))),
    ("errors", INVALID, printed(IDLE.but(failed=9_000)), printed(ROW.but(failed=0))),
    # an output that says who gave up, and not what failed
    (
        "errors",
        INVALID,
        changed(printed(ROW), lambda _: {"summary": {"clients_aborted": 2}}),
        printed(ROW.but(failed=0)),
    ),
    ("errors", INVALID, printed(IDLE), printed(ROW.but(failed=0))),
    ("skipped", CAUTION, *both(lambda x: own(point={"rate": 10_000.0}, summary={"skipped": x}), 6100, 5900)),
    ("connection-time", CAUTION, printed(INCL, EXCL.but(tps=425.0)), printed(INCL, EXCL)),
    ("connection-time", INVALID, *both(lambda x: printed(ROW.but(tps_excluding_connections=x)), 1100.0, 840.0)),
    (
        "outside-plan",
        CAUTION,
        printed(replace(ROW, clients=161), facts={"sweep": ["-c clients [2..160]"]}),
        printed(replace(ROW, clients=160), facts={"sweep": ["-c clients [2..160]"]}),
    ),
    (
        "percentile-of-few",
        CAUTION,
        own(summary={"succeeded": 999, "scheduled": 999}),
        own(summary={"succeeded": 1001, "scheduled": 1001}),
    ),
    ("scale-below-clients", CAUTION, *both(lambda x: own(workload="tpcb-like", point={"clients": x}), 11, 10)),
    (
        "scale-below-clients",
        CAUTION,
        printed(replace(ROW, scale=7, statements=BRANCHES), workload="mine.sql"),
        printed(replace(ROW, scale=8, statements=BRANCHES), workload="mine.sql"),
    ),
    (
        "placement-differs",
        CAUTION,
        own(kind_b="dsn", asked_b={"dsn": "postgresql://bench@db.example:5433/x"}),
        own(kind_b="local", asked_b={"bin": "/opt/pg/bin"}),
    ),
    (
        "placement-differs",
        CAUTION,
        own(kind_b="rds", ways=lambda _, name: way(300, "1a", "1a" if name == "a" else "1b")),
        own(kind_b="rds", ways=lambda *_: way(300, "1a", "1a")),
    ),
    ("placement-differs", CAUTION, own(ways=lambda *_: way(300, "1b", "1a")), own(ways=lambda *_: way(300))),
    (
        "hardware-differs",
        CAUTION,
        own(ways=lambda number, _: way(300, None, "1a", "Xeon 8175M" if number < 3 else "Xeon 8259CL")),
        own(ways=lambda *_: way(300, None, "1a", "Xeon 8175M")),
    ),
    ("placement-differs", CAUTION, own(asked_b={"connect": "tcp"}), own(asked_b={"connect": "unix"})),
    (
        "placement-differs",
        CAUTION,
        own(asked_b={"environment": {"data": "tmpfs"}}, fingerprint=on_disks("ext4", None)),
        own(asked_b={"environment": {"data": "/srv"}}, fingerprint=on_disks("ext4", "ext4")),
    ),
    ("cache-cold", CAUTION, own(cached=(1.0, 0.85)), own(cached=(1.0, 0.91))),
    # a larger dataset has a smaller share in memory: that is what is compared
    (
        "cache-cold",
        CAUTION,
        own(cached=(1.0, 0.85)),
        changed(
            own(cached=(1.0, 0.85)),
            lambda trial: {"point": trial.point.model_copy(update={"scale": 10 if trial.target == "a" else 1_000})},
        ),
    ),
    (
        "cache-cold",
        CAUTION,
        own(probe_rows=steady_probe(60, lambda at: 0.21 if at <= 12 else 0.1)),
        own(probe_rows=steady_probe(60, lambda at: 0.21 if at <= 12 else 0.11)),
    ),
    ("cache-cold", CAUTION, *both(lambda x: own(probe_rows=steady_probe(60, lambda at: x / at)), 1, 0.7)),
    (
        "dips-unexplained",
        CAUTION,
        own(seconds=dipping(6)),
        own(seconds=dipping(6), looks=quiet_looks(60, range(30, 36))),
    ),
    ("dips-unexplained", NOTE, own(seconds=dipping(2, 8_000)), own(seconds=dipping(1, 8_000))),
    ("mix-off", CAUTION, own(summary=mixed(0.506)), own(summary=mixed(0.504))),
    ("mix-off", INVALID, own(summary=mixed(0.56)), own(summary=mixed(0.5))),
    # of a few transactions, chance makes it so
    ("mix-off", CAUTION, own(summary=mixed(0.53, 10_000)), own(summary=mixed(0.53, 2_000))),
    ("earlier-sessions", NOTE, own(leftovers={"terminated": 1}), own(leftovers={})),
    ("probe-gap", CAUTION, own(probe={"message": "ended with exit code 3"}), own()),
    ("probe-gap", NOTE, own(probe={"gaps": 1}), own()),
    ("probe-gap", NOTE, own(probe={"late": 31}), own(probe={"late": 29})),
    ("load-imbalance", CAUTION, own(workers=[0.8, 0.3]), own(workers=[0.8, 0.33])),
    ("load-imbalance", CAUTION, own(workers=[0.71, 0.1]), own(workers=[0.69, 0.1])),
    (
        "load-imbalance",
        CAUTION,
        printed(ROW.but(client_transactions_mean=100, client_transactions_stddev=26)),
        printed(ROW.but(client_transactions_mean=100, client_transactions_stddev=24)),
    ),
    ("clock", CAUTION, own(gap_s=1.1), own(gap_s=0.9)),
    ("clock", CAUTION, own(preflight=[HPET]), own(preflight=[TSC])),
    # a price of a throughput that another rule rejects
    (
        "price-unsound",
        INVALID,
        printed(ROW.but(latency_mean_ms=20.0), claims=[(0.5, 0.5)], claimed="€ 0.50 (€ 400 / 800 TPS)"),
        printed(OTHER.but(latency_mean_ms=20.0), ROW, claims=[(0.5, 0.5)], claimed="€ 0.50 (€ 400 / 800 TPS)"),
    ),
    (
        "price-unsound",
        INVALID,
        printed(ROW, replace(ROW, target="b"), claims=[(0.5, 0.5)], claimed="€ 0.50 (€ 400 / 800 TPS)"),
        printed(ROW, OTHER, claims=[(0.5, 0.5)], claimed="€ 0.50 (€ 400 / 800 TPS)"),
    ),
    ("price-unsound", CAUTION, own(plan=PRICED, latency={"mean": 0.42}), own(plan=PRICED)),
    ("preflight", CAUTION, own(preflight=[GOVERNOR, TSC]), own(preflight=[TSC, HPET, TMPFS])),
    ("other-load", CAUTION, own(probe_rows=on_host(others=0.06)), own(probe_rows=on_host(others=0.04))),
    ("other-load", CAUTION, own(probe_rows=on_host(steal=0.025)), own(probe_rows=on_host(steal=0.015))),
    ("swapping", CAUTION, swapping_host(2 << 20), swapping_host(1 << 19)),
    # in one arm more than in the other
    (
        "other-load",
        CAUTION,
        probed(own(), lambda trial: on_host(others=0.04 if trial.target == "b" else 0.0)),
        probed(own(), lambda trial: on_host(others=0.04 if trial.target == "b" else 0.02)),
    ),
    (
        "cache-differs",
        CAUTION,
        probed(own(), lambda trial: hits(0.96 if trial.target == "b" else 0.99)),
        probed(own(), lambda trial: hits(0.975 if trial.target == "b" else 0.99)),
    ),
    ("plan-differs", CAUTION, planned({1: "x", 3: "x", 5: "y"}), planned({1: "x", 3: "x", 2: "y", 4: "y"})),
    ("results-differ", INVALID, returning("1f", "2f"), returning("1f", "1f")),
    ("results-differ", INVALID, returning("1f", "1f", "2f"), returning("1f", "1f", "1f")),
    ("cold-was-warm", INVALID, cold(0.2), cold(0.01)),
    ("results-cached", INVALID, rerun(3.0), rerun(1.1)),
    # another size of shared buffers is what is compared
    (
        "cache-differs",
        CAUTION,
        probed(own(), lambda trial: hits(0.96 if trial.target == "b" else 0.99)),
        probed(own(changed_b={"shared_buffers": "2GB"}), lambda trial: hits(0.96 if trial.target == "b" else 0.99)),
    ),
    ("dataset-differs", CAUTION, sized(1.06), sized(1.04)),
    ("arms-differ", CAUTION, own(fingerprint=indexes_of_b("btree (b)")), own(fingerprint=indexes_of_b("btree (a)"))),
    ("arms-differ", CAUTION, own(fingerprint=print_of_b(data_checksums=True)), own(fingerprint=print_of_b())),
    ("arms-differ", CAUTION, threaded(4), threaded(2)),
    ("maintenance-one-arm", CAUTION, probed(own(), ran("checkpoints", "timed", "b")), probed(own(), ran())),
    ("maintenance-one-arm", CAUTION, *both(lambda x: probed(own(), ran("tables", "autoanalyzes", x)), "a", "ab")),
    (
        "maintenance-one-arm",
        NOTE,
        probed(own(), ran("tables", "autovacuums", "b", trials=(4, 6))),
        probed(own(), ran("tables", "autovacuums", "ab", trials=(3, 4))),
    ),
    ("counts-differ", CAUTION, counted(0.003), counted(0.001)),
    ("repeats-spread", CAUTION, *both(lambda x: rated(lambda trial: x ** (trial.repeat % 2)), 1.12, 1.08)),
    ("repeats-spread", CAUTION, rated(lambda trial: float(trial.repeat % 2)), rated(lambda _: 0.0)),
    # one trial alone, which is named
    ("repeats-spread", CAUTION, *both(lambda x: rated(lambda trial: x if trial.number == 5 else 1.0), 0.93, 0.96)),
    # a decline of 3 % a trial: one after the other, the second of each pair is slower by it
    ("drift", INVALID, rated(lambda trial: 0.97**trial.number), rated(lambda trial: NOISE[trial.number % 5])),
    (
        "drift",
        CAUTION,
        rated(lambda trial: 0.97**trial.number * (2.0 if trial.target == "b" else 1.0)),
        rated(lambda trial: NOISE[trial.number % 5] * (2.0 if trial.target == "b" else 1.0)),
    ),
    # in the order A B B A both arms meet the same
    ("drift", NOTE, *both(lambda x: rated(lambda trial: x**trial.number, there_and_back=True), 0.97, 0.997)),
    (
        "periodic",
        CAUTION,
        rated(lambda trial: NOISE[trial.number % 5] * (0.9 if trial.number % 3 == 0 else 1.0)),
        rated(lambda trial: NOISE[trial.number % 5] * (0.9 if trial.number in (3, 5, 12) else 1.0)),
    ),
    ("errors-one-arm", CAUTION, failing(b=700), failing(a=700, b=740)),
    ("errors-one-arm", NOTE, failing(b=1), failing(a=1, b=1)),
    ("errors-one-arm", CAUTION, failing("retried", a=600, b=1_900), failing("retried", a=600, b=620)),
    # a trial that failed in one arm only
    (
        "errors-one-arm",
        CAUTION,
        changed(own(), lambda trial: {"outcome": Outcome.FAILED} if trial.number == 4 else {}),
        changed(own(), lambda trial: {"outcome": Outcome.FAILED} if trial.number in (3, 4) else {}),
    ),
    ("no-rows", CAUTION, counting(0), counting(1)),
    # the server counts no rows of BEGIN, and rare statements are no evidence
    ("no-rows", CAUTION, counting(0, executions=17), counting(0, executions=16)),
    ("standby-lag", CAUTION, lagging(bytes_last=80 << 20, replay_lag_last_s=9.0), lagging()),
    ("standby-lag", CAUTION, lagging(samples=0, bytes_last=None), lagging(bytes_last=15 << 20, replay_lag_last_s=9.0)),
    ("standby-lag", NOTE, lagging(replay_lag_max_s=1.4), lagging(replay_lag_max_s=0.9)),
    ("pool-limited", CAUTION, pooled(), pooled(clients_waiting=0.9)),
    ("pool-limited", CAUTION, pooled(others=0.4), pooled(servers_active=3)),
    ("one-instance", NOTE, own(), changed(own(), lambda trial: {"instance": trial.repeat % 2 + 1})),
    (
        "one-instance",
        CAUTION,
        own(ways=lambda *_: way(100.0, "eu-1a", "eu-1a")),
        changed(own(ways=lambda *_: way(100.0, "eu-1a", "eu-1a")), lambda trial: {"instance": trial.repeat % 2 + 1}),
    ),
    (
        "declines",
        CAUTION,
        own(seconds=[10_000.0 - second / 2 for second in range(3_600)], length_s=3_600, repeats=1),
        own(seconds=[10_000.0] * 3_600, length_s=3_600, repeats=1),
    ),
    ("duet", NOTE, changed(own(), lambda _: {"duet": DuetRecord(partner=2, processors=[0], tps_ratio=1.1)}), own()),
]
