"""A run for each rule of the audit about which it speaks, and one about which it does not."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from pgdyno import records
from pgdyno.audit import Severity
from pgdyno.audit.subject import AuditRun
from tests.present import present
from tests.unit import audit_disturbed as disturbed
from tests.unit.audit_disturbed import NOISE, failing, hits, lagging, on_host, pooled, ran, rated, returning
from tests.unit.audit_sample import (
    OTHER,
    ROW,
    FakeRun,
    Row,
    add_samples,
    by_hosts,
    counting,
    dipping,
    each_second,
    on_disks,
    own,
    print_of_b,
    quiet_looks,
    revise_trials,
    rows_run,
    steady_probe,
    threaded,
    way,
)  # fmt: skip

NOTE, CAUTION, INVALID = Severity.NOTE, Severity.CAUTION, Severity.INVALID
IDLE = Row(figures={"tps": 0.0, "latency_mean_ms": 0.0, "latency_max_ms": 0.0, "transactions": 0, "duration_s": 60.0})
BRANCHES = replace(ROW, statements=(("UPDATE pgbench_branches SET bbalance = 1", 4.0), ("END;", 6.0)))
INCL = Row("x, incl. conn", 26, {"tps": 400.0}, {"rows": "incl. conn", "ratio": "1:1"})
EXCL = Row("x, excl. conn", 26, {"tps": 420.0}, {"rows": "excl. conn", "ratio": "1:1"})
LOCAL = replace(ROW, command="pgbench -c 8 -T 60 bench")
GOOD, WARNING = records.CheckVerdict.GOOD, records.CheckVerdict.WARNING
TMPFS = records.Check(id="storage.file-system", verdict=WARNING, found="data lie on tmpfs", means="no disk")
DISK = records.Check(id="storage.file-system", verdict=GOOD, found="data lie on ext4")
HPET = records.Check(id="clock.source", verdict=WARNING, found="hpet", means="slow")
TSC = records.Check(id="clock.source", verdict=GOOD, found="tsc")
GOVERNOR = records.Check(id="cpu.governor", verdict=WARNING, found="powersave", means="slow", change="cpupower …")
REFUSED = records.ErrorCount(sqlstate="53300", message="sorry, too many clients already", count=7000, refused=True)
PRICED = {"price": {"currency": "EUR", "date": "2026-11-01", "years": 3, "target": {"a": {"hourly": [{"amount": 1}]}}}}
CLAIM: dict[str, Any] = {"claims": [(0.5, 0.5)], "claimed": "€ 0.50 (€ 400 / 800 TPS)"}


def side_by_side(*hosts: str) -> FakeRun:
    """Two tables of two targets, one on r5.large or on `hosts`, the other on r5.12xlarge."""
    here = [Row(name, 8, {"tps": 800.0 + at}, {"host": hosts[at % len(hosts)]}, line=1) for at, name in enumerate("ab")]
    return rows_run(*here, *(Row(name, 8, {"tps": 900.0}, {"host": "r5.12xlarge"}, line=9) for name in "cd"))


def on(a: str, b: str) -> FakeRun:
    return rows_run(replace(ROW, words={"host": a}), replace(OTHER, words={"host": b}))


def alike(targets: str, clients: Sequence[int], tps: Callable[[int], float]) -> FakeRun:
    return rows_run(*(Row(name, n, {"tps": tps(n)}) for name in targets for n in clients))


def mixed(share: float, done: int = 600_000) -> dict[str, object]:
    """Two scripts of the same weight, of which the first has `share` of the transactions."""
    counts = (round(share * done), done - round(share * done))
    names = ("read", "write")
    return {
        "scripts": [
            records.ScriptSummary(id=at, name=names[at], weight=1, succeeded=count, failed=0, skipped=0)
            for at, count in enumerate(counts)
        ]
    }


def caught(errors: int, retries: int = 0) -> FakeRun:
    """A Lua script that ignores errors, `retries` of which began an event again."""
    counts = {"reads": 600_000, "writes": 0, "others": 0, "ignored_errors": errors, "reconnects": 0}
    return own(summary={"statements": counts, "retries": retries})


def failed_in(*trials: int) -> FakeRun:
    return revise_trials(own(), lambda trial: {"outcome": records.Outcome.FAILED} if trial.number in trials else {})


def at_scales(a: int, b: int) -> FakeRun:
    """Two targets of which b has less of its dataset in memory."""
    return revise_trials(own(cached=(1.0, 0.85)), lambda trial: {"point": {"scale": a if trial.target == "a" else b}})


def by_default(a: str, b: str) -> FakeRun:
    """Two targets whose effective_io_concurrency nobody changed."""
    values = {trial.number: a if trial.target == "a" else b for trial in own().trials}
    return replace(own(), server={at: {"effective_io_concurrency": value} for at, value in values.items()})


def drained(drain_s: float) -> FakeRun:
    """Trials whose last transactions ended `drain_s` after the time that was asked for."""
    return revise_trials(own(latency={"mean": 0.34}), lambda trial: {"duration_s": trial.duration_s and 60.0 - drain_s})


def like_capture(difference: float, disagreed: int | None = None) -> FakeRun:
    """A load with this difference of a class's share; with `disagreed`, of a replay so many of 100 statements had
    another result than in the capture.
    """
    figures: dict[str, Any] = {"captured_calls": 100, "captured_per_s": 1, "calls": 100, "classes": []}
    likeness = records.Likeness(**figures, largest_difference=difference, true_to=None if disagreed is None else 0.95)
    counts = {"sessions": 1, "sessions_begun": 1, "sessions_lost": 0, "statements": 100, "done": 100, "not_started": 0}
    replay = records.ReplayFigures.model_validate({**counts, "disagreements": {"new_errors": disagreed or 0}})
    summary = {} if disagreed is None else {"replay": replay}
    return revise_trials(own(), lambda _: {"likeness": likeness, "summary": summary})


def alternating(run: FakeRun) -> FakeRun:
    return revise_trials(run, lambda trial: {"instance": trial.repeat % 2 + 1})


def swapping(swapped: int) -> FakeRun:
    """So many bytes in the measured part."""
    return add_samples(own(), lambda _: each_second(60.0, "paging", swapped_in=0.0, swapped_out=swapped / 60))


def at_b(a_us: float, b_us: float) -> FakeRun:
    """Round trips to the targets, which were measured."""
    return own(ways=lambda _, name: way(a_us if name == "a" else b_us))


def hosts(*rates: tuple[int, float, float], busy: Sequence[float] = (0.3, 0.3), late_us: int = 2000) -> FakeRun:
    return by_hosts(own(workers=busy), *rates, late_us=late_us)


def slower(factor: float, trials: Callable[[int], bool]) -> FakeRun:
    """Trials with noise, of which some are slower."""
    return rated(lambda trial: NOISE[trial.number % 5] * (factor if trials(trial.number) else 1.0))


def where_b(a: Any, b: Any) -> FakeRun:  # noqa: ANN401 - lists of samples
    return add_samples(own(), lambda trial: b if trial.target == "b" else a)


def both(build: Callable[..., AuditRun], triggers: Any, nearly: Any) -> tuple[AuditRun, AuditRun]:  # noqa: ANN401
    """Returns a run that triggers and one that nearly does: by one argument, or by a tuple of them."""
    first, second = (each if isinstance(each, tuple) else (each,) for each in (triggers, nearly))
    return build(*first), build(*second)


LATENCY = present(own().trials[0].summary).latency_ns
STEADY = (4, 5_000.0, 0.3)
HALF = (4, 5_000.0, 0.5)
OF_B: dict[str, Any] = {"synchronous_commit": "off"}
BY_RULE: dict[str, Callable[[], list[tuple[Severity, AuditRun, AuditRun]]]] = {
    # rule, and of each case the severity, what triggers it, what nearly does; made when they are needed
    "littles-law": lambda: [
        (CAUTION, own(latency={"mean": 0.42}), own(latency={"mean": 0.407})),
        # clients that are done wait for a transaction of 10 s after a trial of 50 s: 60 s are measured
        (INVALID, *both(drained, 0.0, 10.0)),
        (INVALID, *both(lambda x: rows_run(ROW.but(latency_mean_ms=x)), 20.0, 10.19)),
    ],
    "arithmetic": lambda: [
        # 0.5 %, a transaction of 90 ms after the end, and half of the last digit of the length
        (CAUTION, *both(lambda x: rows_run(ROW.but(transactions=x)), 48_400, 48_300)),
        # pgbench connects within the length that it prints, and leaves that out of the rate
        (CAUTION, *both(lambda x: rows_run(replace(ROW, tool="pgbench").but(transactions=47_500, **x)),
                        {}, {"connect_ms": 600})),
        (INVALID, *both(lambda x: rows_run(ROW.but(latency_p95_ms=x)), 92.0, 91.0)),
        (CAUTION, *both(lambda x: rows_run(ROW, claims=[(0.11, x)]), 0.1048, 0.1051)),
        (CAUTION, *both(lambda x: rows_run(replace(ROW, statements=(("BEGIN;", 1.0), ("END;", x)))), 8.4, 8.6)),
        (CAUTION, *both(lambda x: rows_run(ROW.but(reads=700, writes=200, others=100, qps=x)), 17.0, 16.7)),
        (CAUTION, *both(lambda x: own(summary={"succeeded": x}), 602_000, 600_400)),
    ],
    "unlike-capture": lambda: [
        (CAUTION, like_capture(0.011), like_capture(0.009)),
        (INVALID, like_capture(0.0, 6), like_capture(0.0, 0)),
    ],
    "identical-rows": lambda: [
        (INVALID, rows_run(ROW, replace(ROW, target="b")), rows_run(ROW, OTHER)),
        (CAUTION, alike("ab", [8, 16], float), alike("ab", [8], float)),
        # one output twice, as repeats of a point; of four trials without a transaction, all figures are equal
        (INVALID, rows_run(ROW, ROW), rows_run(ROW, ROW.but(latency_mean_ms=10.01))),
        (INVALID, rows_run(ROW, ROW), rows_run(*[IDLE] * 4)),
        # one row under two numbers of clients
        (INVALID, rows_run(ROW, replace(ROW, clients=16)), rows_run(ROW, replace(OTHER, clients=16))),
        (CAUTION, *both(lambda x: alike("a", [512, 1024], lambda _: x), 7209.4312, 7209.431)),
        # all trials have the latencies of the first
        (INVALID, revise_trials(own(), lambda _: {"summary": {"latency_ns": LATENCY}}), own()),
    ],
    "network-floor": lambda: [
        (INVALID, own(floor_b_ms=1.3, latency={"p50": 1.3}), own(floor_b_ms=0.29)),
        (CAUTION, *both(lambda x: own(floor_b_ms=x), 0.7, 0.29)),
        (CAUTION, *both(lambda x: own(floor_b_ms=x), 0.5, 0.19)),
        # what was measured stands before what latencies hint at; a statement a transaction
        (INVALID, at_b(300, 1400), own(floor_b_ms=1.3, latency={"p50": 1.3}, ways=lambda *_: way(300))),
        (CAUTION, at_b(300, 850), at_b(16, 62)),
        # many times as far is another way, however short both are
        (CAUTION, at_b(100, 500), at_b(200, 590)),
        (CAUTION, own(kind_b="rds", ways=lambda number, name: way(1500 if (number, name) == (4, "b") else 300)),
         own(ways=lambda number, _: way(1500 if number == 3 else 300))),
    ],
    "generator-limited": lambda: [
        # the busiest worker counts, whatever the others do
        (CAUTION, own(workers=[0.2, 0.75]), own(workers=[0.69, 0.69])),
        (INVALID, own(workers=[0.2, 0.95]), own(workers=[0.69, 0.69])),
        (CAUTION, *both(lambda x: hosts(STEADY, (4, 5_000.0, x)), 0.75, 0.69)),
    ],
    "worker-added": lambda: [(CAUTION, revise_trials(own(), lambda _: {"generator": {"worker_added": 1}}), own())],
    "load-imbalance": lambda: [
        (CAUTION, *both(lambda x: hosts(HALF, (3, x, 0.5), busy=(0.5, 0.5)), 2_600.0, 2_700.0)),
        # one that is cut off from the server does nothing at all
        (CAUTION, hosts(STEADY, (4, 0.0, 0.0)), own()),
        (NOTE, *both(lambda x: hosts(STEADY, STEADY, late_us=x), 2_100_000, 1_900_000)),
        (CAUTION, own(workers=[0.8, 0.3]), own(workers=[0.8, 0.33])),
        (CAUTION, own(workers=[0.71, 0.1]), own(workers=[0.69, 0.1])),
        (CAUTION, *both(lambda x: rows_run(ROW.but(client_transactions_mean=100, client_transactions_stddev=x)),
                        26, 24)),
    ],
    "generator-on-server": lambda: [
        (NOTE, own(), own(targets=[])),
        (NOTE, *both(lambda x: rows_run(replace(ROW, command=f"pgbench -h {x} -c 8 -T 60 bench")),
                     "localhost", "db.example")),
        (NOTE, rows_run(LOCAL), rows_run(LOCAL, facts={"PGHOST": ["PGHOST=db.example"]})),
        (NOTE, rows_run(ROW, facts={"prompt of a server": ["postgres@dbhost:~$ pgbench -c 8 bench"]}),
         rows_run(replace(ROW, command="pgbench -c 8 'host=$DB dbname=bench'"))),
    ],
    "hardware-differs": lambda: [
        (CAUTION, on("r5.2xlarge", "r5.12xlarge"), on("r5.2xlarge", "r5.2xlarge")),
        # two tables with two targets on each line: only those on one line are compared
        (CAUTION, side_by_side("r5.large", "r6.large"), side_by_side("r5.large")),
        (CAUTION, own(ways=lambda number, _: way(300, None, "1a", "Xeon 8175M" if number < 3 else "Xeon 8259CL")),
         own(ways=lambda *_: way(300, None, "1a", "Xeon 8175M"))),
    ],
    "settings-differ": lambda: [
        (CAUTION, own(changed_b={"shared_buffers": "2GB"}), own(changed_b={"port": "5433"})),
        (NOTE, own(changed_b={"work_mem": "8MB"}), own(changed_b={"cluster_name": "b"})),
        (CAUTION, *both(lambda x: rows_run(ROW, facts={"shared_buffers": [f"shared_buffers\t{x}\t16GB"]}),
                        "40GB", "16GB")),
    ],
    "default-differs": lambda: [(CAUTION, by_default("16", "1"), by_default("16", "16"))],
    "version-differs": lambda: [(NOTE, own(versions=("17.2", "18.6")), own())],
    "durability": lambda: [
        (CAUTION, own(workload="tpcb-like", settings={"fsync": "off"}), own(workload="tpcb-like")),
        (NOTE, own(settings={"fsync": "off"}), own(settings={"synchronous_commit": "remote_apply"})),
        (INVALID, *both(lambda x: own(only_b={"synchronous_commit": x}), "off", "local")),
        (CAUTION, *both(lambda x: own(only_b=x, point={"settings": x}), OF_B, OF_B | {"synchronous_commit": "local"})),
        (CAUTION, own(preflight=[TMPFS]), own(preflight=[DISK])),
        (CAUTION, *both(lambda x: rows_run(ROW, facts={"fsync": [x]}), "fsync = off", "fsync = on")),
    ],
    "cache-resident": lambda: [(NOTE, own(dataset_bytes=1 << 30), own(dataset_bytes=5 << 30))],
    "autovacuum-off": lambda: [
        (CAUTION, own(workload="tpcb-like", settings={"autovacuum": "off"}), own(workload="tpcb-like")),
        (CAUTION, *both(lambda x: rows_run(ROW, facts={"autovacuum": [f"autovacuum\t{x}\t{x}"]}), "off", "on")),
    ],
    "checkpoint-cycle": lambda: [(NOTE, *both(lambda x: own(workload="tpcb-like", length_s=x), 599, 600))],
    "unsteady": lambda: [(CAUTION, *both(lambda x: own(seconds=[9000.0] * 40 + [x] * 20), 6700.0, 6800.0))],
    "too-short": lambda: [
        # one of the trials of 60 s
        (CAUTION, *both(
            lambda x: revise_trials(own(), lambda t: {"summary": {"measured_s": x if t.number == 3 else 60.0}}),
            53.0, 55.0
        )),
        (CAUTION, own(length_s=9.0), own(length_s=9.9)),
        (CAUTION, *both(lambda x: rows_run(ROW.but(duration_s=x)), 59.0, 59.6)),
    ],
    "no-repeats": lambda: [(CAUTION, own(repeats=1), own(repeats=6)), (NOTE, own(repeats=5), own(repeats=6))],
    "order-bias": lambda: [(CAUTION, own(orders="aabb"), own(orders="abba"))],
    "errors": lambda: [
        (NOTE, own(summary={"failed": 1}), own()),
        (CAUTION, own(summary={"failed": 700}), own()),
        (INVALID, own(summary={"failed": 7000}), own()),
        (INVALID, own(summary={"clients_aborted": 1}), own()),
        (CAUTION, own(summary={"failed": 7000, "errors": [REFUSED]}), own()),
        (NOTE, caught(9), caught(9, retries=9)),
        (CAUTION, caught(700), caught(0)),
        (INVALID, rows_run(IDLE.but(failed=9_000)), rows_run(ROW.but(failed=0))),
        # an output that says who gave up, and not what failed
        (INVALID, revise_trials(rows_run(ROW), lambda _: {"summary": {"clients_aborted": 2}}),
         rows_run(ROW.but(failed=0))),
        (INVALID, rows_run(IDLE), rows_run(ROW.but(failed=0))),
    ],
    "skipped": lambda: [(CAUTION, *both(lambda x: own(point={"rate": 10_000.0}, summary={"skipped": x}), 6100, 5900))],
    "connection-time": lambda: [
        (CAUTION, rows_run(INCL, EXCL.but(tps=425.0)), rows_run(INCL, EXCL)),
        (INVALID, *both(lambda x: rows_run(ROW.but(tps_excluding_connections=x)), 1100.0, 840.0)),
    ],
    "outside-plan": lambda: [
        (CAUTION, *both(lambda x: rows_run(replace(ROW, clients=x), facts={"sweep": ["-c clients [2..160]"]}),
                        161, 160)),
    ],
    "percentile-of-few": lambda: [(CAUTION, *both(lambda x: own(summary={"succeeded": x, "scheduled": x}), 999, 1001))],
    "scale-below-clients": lambda: [
        (CAUTION, *both(lambda x: own(workload="tpcb-like", point={"clients": x}), 11, 10)),
        (CAUTION, *both(lambda x: rows_run(replace(BRANCHES, scale=x), workload="mine.sql"), 7, 8)),
    ],
    "placement-differs": lambda: [
        (CAUTION, own(kind_b="dsn", asked_b={"dsn": "postgresql://bench@db.example:5433/x"}),
         own(kind_b="local", asked_b={"bin": "/opt/pg/bin"})),
        (CAUTION, *both(lambda b: own(kind_b="rds", ways=lambda _, name: way(300, "1a", "1a" if name == "a" else b)),
                        "1b", "1a")),
        (CAUTION, own(ways=lambda *_: way(300, "1b", "1a")), own(ways=lambda *_: way(300))),
        (CAUTION, own(asked_b={"connect": "tcp"}), own(asked_b={"connect": "unix"})),
        (CAUTION, *both(lambda data, b: own(asked_b={"environment": {"data": data}}, fingerprint=on_disks("ext4", b)),
                        ("tmpfs", None), ("/srv", "ext4"))),
    ],
    "cache-cold": lambda: [
        (CAUTION, own(cached=(1.0, 0.85)), own(cached=(1.0, 0.91))),
        # a larger dataset has a smaller share in memory: that is what is compared
        (CAUTION, at_scales(10, 10), at_scales(10, 1_000)),
        (CAUTION, *both(lambda x: own(probe_rows=steady_probe(60, lambda at: 0.21 if at <= 12 else x)), 0.1, 0.11)),
        (CAUTION, *both(lambda x: own(probe_rows=steady_probe(60, lambda at: x / at)), 1, 0.7)),
    ],
    "dips-unexplained": lambda: [
        (CAUTION, own(seconds=dipping(6)), own(seconds=dipping(6), looks=quiet_looks(60, range(30, 36)))),
        (NOTE, own(seconds=dipping(2, 8_000)), own(seconds=dipping(1, 8_000))),
    ],
    "mix-off": lambda: [
        (CAUTION, own(summary=mixed(0.506)), own(summary=mixed(0.504))),
        (INVALID, own(summary=mixed(0.56)), own(summary=mixed(0.5))),
        # of a few transactions, chance makes it so
        (CAUTION, own(summary=mixed(0.53, 10_000)), own(summary=mixed(0.53, 2_000))),
    ],
    "earlier-sessions": lambda: [
        (NOTE, *both(
            lambda x: revise_trials(own(), lambda _: {"leftovers": records.Leftovers(sessions=1, seconds=5.0, **x)}),
            {"terminated": 1}, {}
        )),
    ],
    "probe-gap": lambda: [
        (CAUTION, own(probe={"message": "ended with exit code 3"}), own()),
        (NOTE, own(probe={"gaps": 1}), own()),
        (NOTE, own(probe={"late": 31}), own(probe={"late": 29})),
    ],
    "clock": lambda: [
        (CAUTION, own(gap_s=1.1), own(gap_s=0.9)), (CAUTION, own(preflight=[HPET]), own(preflight=[TSC])),
    ],
    "price-unsound": lambda: [
        # a price of a throughput that another rule rejects
        (INVALID, rows_run(ROW.but(latency_mean_ms=20.0), **CLAIM),
         rows_run(OTHER.but(latency_mean_ms=20.0), ROW, **CLAIM)),
        (INVALID, rows_run(ROW, replace(ROW, target="b"), **CLAIM), rows_run(ROW, OTHER, **CLAIM)),
        (CAUTION, own(plan=PRICED, latency={"mean": 0.42}), own(plan=PRICED)),
    ],
    "preflight": lambda: [(CAUTION, own(preflight=[GOVERNOR, TSC]), own(preflight=[TSC, HPET, TMPFS]))],
    "other-load": lambda: [
        (CAUTION, own(probe_rows=on_host(others=0.06)), own(probe_rows=on_host(others=0.04))),
        (CAUTION, own(probe_rows=on_host(steal=0.025)), own(probe_rows=on_host(steal=0.015))),
        # in one arm more than in the other
        (CAUTION, where_b(on_host(), on_host(others=0.04)), where_b(on_host(others=0.02), on_host(others=0.04))),
    ],
    "swapping": lambda: [(CAUTION, swapping(2 << 20), swapping(1 << 19))],
    "cache-differs": lambda: [
        (CAUTION, where_b(hits(0.99), hits(0.96)), where_b(hits(0.99), hits(0.975))),
        # another size of shared buffers is what is compared
        (CAUTION, where_b(hits(0.99), hits(0.96)), replace(
            where_b(hits(0.99), hits(0.96)), manifest=own(changed_b={"shared_buffers": "2GB"}).manifest)),
    ],
    "plan-differs": lambda: [
        (CAUTION, *both(disturbed.planned, {1: "x", 3: "x", 5: "y"}, {1: "x", 3: "x", 2: "y", 4: "y"})),
    ],
    "results-differ": lambda: [
        (INVALID, returning("1f", "2f"), returning("1f", "1f")),
        (INVALID, returning("1f", "1f", "2f"), returning("1f", "1f", "1f")),
    ],
    "cold-was-warm": lambda: [(INVALID, *both(disturbed.cold, 0.2, 0.01))],
    "results-cached": lambda: [(INVALID, *both(disturbed.rerun, 3.0, 1.1))],
    "dataset-differs": lambda: [(CAUTION, *both(disturbed.sized, 1.06, 1.04))],
    "arms-differ": lambda: [
        (CAUTION, *both(lambda x: own(fingerprint=print_of_b(indexes={"public.t": x})), "btree (b)", "btree (a)")),
        (CAUTION, own(fingerprint=print_of_b(data_checksums=True)), own(fingerprint=print_of_b())),
        (CAUTION, threaded(4), threaded(2)),
    ],
    "maintenance-one-arm": lambda: [
        (CAUTION, add_samples(own(), ran("checkpoints", "timed", "b")), add_samples(own(), ran())),
        (CAUTION, *both(lambda x: add_samples(own(), ran("tables", "autoanalyzes", x)), "a", "ab")),
        (NOTE, *both(lambda where, trials: add_samples(own(), ran("tables", "autovacuums", where, trials)),
                     ("b", (4, 6)), ("ab", (3, 4)))),
    ],
    "counts-differ": lambda: [(CAUTION, *both(disturbed.counted, 0.003, 0.001))],
    "repeats-spread": lambda: [
        (CAUTION, *both(lambda x: rated(lambda trial: x ** (trial.repeat % 2)), 1.12, 1.08)),
        (CAUTION, rated(lambda trial: float(trial.repeat % 2)), rated(lambda _: 0.0)),
        # one trial alone, which is named
        (CAUTION, *both(lambda x: rated(lambda trial: x if trial.number == 5 else 1.0), 0.93, 0.96)),
    ],
    "drift": lambda: [
        # a decline of 3 % a trial: one after the other, the second of each pair is slower by it
        (INVALID, rated(lambda trial: 0.97**trial.number), slower(1.0, bool)),
        (CAUTION, rated(lambda trial: 0.97**trial.number * (2.0 if trial.target == "b" else 1.0)),
         slower(2.0, lambda number: number % 2 == 0)),
        # in the order A B B A both arms meet the same
        (NOTE, *both(lambda x: rated(lambda trial: x**trial.number, there_and_back=True), 0.97, 0.997)),
    ],
    "periodic": lambda: [(CAUTION, slower(0.9, lambda number: number % 3 == 0), slower(0.9, (3, 5, 12).__contains__))],
    "errors-one-arm": lambda: [
        (CAUTION, failing(b=700), failing(a=700, b=740)),
        (NOTE, failing(b=1), failing(a=1, b=1)),
        (CAUTION, failing("retried", a=600, b=1_900), failing("retried", a=600, b=620)),
        # a trial that failed in one arm only
        (CAUTION, failed_in(4), failed_in(3, 4)),
    ],
    # the server counts no rows of BEGIN, and rare statements are no evidence
    "no-rows": lambda: [
        (CAUTION, counting(0), counting(1)), (CAUTION, *both(lambda x: counting(0, executions=x), 17, 16)),
    ],
    "standby-lag": lambda: [
        (CAUTION, lagging(bytes_last=80 << 20, replay_lag_last_s=9.0), lagging()),
        (CAUTION, lagging(samples=0, bytes_last=None), lagging(bytes_last=15 << 20, replay_lag_last_s=9.0)),
        (NOTE, lagging(replay_lag_max_s=1.4), lagging(replay_lag_max_s=0.9)),
    ],
    "pool-limited": lambda: [
        (CAUTION, pooled(), pooled(clients_waiting=0.9)),
        (CAUTION, pooled(others=0.4), pooled(servers_active=3)),
    ],
    "one-instance": lambda: [
        (NOTE, own(), alternating(own())),
        (CAUTION, *both(lambda x: x(own(ways=lambda *_: way(100.0, "1a", "1a"))), lambda run: run, alternating)),
    ],
    "declines": lambda: [
        (CAUTION, *both(lambda x: own(seconds=[10_000.0 - x * at for at in range(3_600)], length_s=3_600, repeats=1),
                        0.5, 0)),
    ],
    "duet": lambda: [
        (NOTE, revise_trials(own(), lambda _: {"duet": records.DuetRecord(partner=2, processors=[0], tps_ratio=1.1)}),
         own()),
    ],
}  # fmt: skip
