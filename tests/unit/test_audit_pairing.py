"""The audit's rules about pairs find the same between two runs as between two arms of one run."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from pgdyno.analyse.pairs import Metric
from pgdyno.audit import Severity, audit
from pgdyno.audit.facts import words_of
from pgdyno.audit.pairing import PAIR_RULES, Pairing, pairing_between, pairing_of_arms, pairing_within
from pgdyno.records import ServerPrint
from pgdyno.report.sections.environment import environment_table
from pgdyno.units import setting_value
from tests.unit.audit_disturbed import failing, hits, on_host, ran, sized
from tests.unit.audit_sample import (
    ROW,
    FakeRun,
    add_samples,
    each_second,
    in_b,
    of,
    own,
    print_of_b,
    revise_trials,
    rows_run,
    threaded,
    way,
)
from tests.unit.test_fingerprint import BASE, SERVER

paired = pairing_between


def topics(found: Pairing) -> list[str]:
    return sorted({each.topic for each in found.confounders})


def runs_of(servers: Sequence[ServerPrint]) -> tuple[FakeRun, FakeRun]:
    one, two = (BASE.model_copy(update={"servers": dict.fromkeys(("a", "b"), each)}) for each in servers)
    return own(run="one", fingerprint=one), own(run="two", fingerprint=two)


def arms_of(a: ServerPrint, b: ServerPrint) -> FakeRun:
    return own(fingerprint=BASE.model_copy(update={"servers": {"a": a, "b": b}}))


def test_datasets_and_caches_of_unequal_size_confound_two_runs() -> None:
    found = paired(own(run="one"), own(run="two"))
    assert (found.confounders, found.invalid, found.refused) == ([], [], [])
    found = paired(own(run="one"), own(run="two", dataset_bytes=110 << 30))
    assert topics(found) == ["dataset size"]
    assert "107 GB at a of one and 118 GB at a of two" in str(found.confounders[0].message)
    warm = cached("one", 0.99, 0.99)
    assert topics(paired(warm, cached("two", 0.96, 0.96))) == ["cache contents"]
    assert topics(paired(warm, cached("two", 0.99, 0.99))) == []
    # arms that differ within both runs alike
    assert topics(paired(cached("one", 0.99, 0.96), cached("two", 0.99, 0.96))) == []


def cached(run: str, a: float, b: float) -> FakeRun:
    """A run whose targets find these shares of their pages in shared buffers."""
    return add_samples(own(run=run), lambda trial: hits(b if trial.target == "b" else a))


def test_findings_that_refuse_arms_of_a_run_refuse_two_runs() -> None:
    for within, base, other, rule, by in (
        (own(only_b={"fsync": "off"}), own(run="one"), own(run="two", settings={"fsync": "off"}),
         "durability", "settings.fsync"),
        (own(kind_b="dsn", ways=lambda _, name: way(100.0 if name == "a" else 2_500.0)),
         own(run="one", ways=lambda *_: way(100.0)), own(run="two", ways=lambda *_: way(2_500.0)),
         "network-floor", "placement"),
    ):  # fmt: skip
        assert Severity.INVALID in [each.severity for each in of(rule, within)]
        found = paired(base, other)
        assert {each.rule for each in found.invalid} == {rule}
        assert found.invalid[0].advice.endswith(f"; to compare this, pass --by {by}")
        assert found.confounders == []
        assert paired(base, other, by).invalid == []


def test_loads_and_lengths_of_imported_runs_are_compared_where_both_say_what_they_were() -> None:
    for base, other, refused, confounded in (
        ({"scripts": "a.sql@1"}, {"scripts": "b.sql@1"}, ["load.scripts"], []),
        ({"loop": "closed"}, {"loop": "open"}, ["load.loop"], []),
        ({"options": "none"}, {"options": "-L 100"}, [], ["load.options"]),
        ({"transactions": "100"}, {"transactions": "100000"}, [], ["load.transactions"]),
        ({"partitions": "hash, 100"}, {}, [], []),
        ({"scripts": "a.sql@1", "options": "-C"}, {"scripts": "a.sql@1", "options": "-C"}, [], []),
    ):
        found = paired(rows_run(*[replace(ROW, load=base)] * 2), rows_run(*[replace(ROW, load=other)] * 2))
        assert [each.field for each in found.refused] == refused
        assert [each.field for each in found.confounders] == confounded
    # times that elapsed are no other length
    for length, is_confounded in ((60.0066, False), (61.0, False), (66.0, True), (600.0, True)):
        minute = rows_run(*[ROW.but(duration_s=60.0 + part) for part in (0.0051, 0.0055)])
        found = paired(minute, rows_run(ROW.but(duration_s=length)))
        assert [each.field for each in found.confounders] == (["trial.duration"] if is_confounded else [])


def planned(**sections: object) -> dict[str, object]:
    return {"name": "quick", "trial": {"seed": 1}, **sections}


@pytest.mark.parametrize(
    ("plan", "trial", "refused", "confounded", "noted"),
    [
        (planned(trial={"ledger": True}), {}, ["trial.ledger"], [], []),
        ({}, {"warmup_s": 600.0}, [], ["trial.warmup"], []),
        ({}, {"transactions": 10, "duration_s": None}, [], ["trial.transactions"], []),
        (planned(hooks={"before_trial": "./drop-caches.sh"}), {}, [], [], ["hooks"]),
        (planned(probe={"enabled": False}), {}, [], [], ["probe.enabled"]),
        (planned(trial={"ledger": False}, hooks={"before_trial": None}), {}, [], [], []),
    ],
)
def test_what_a_plan_says_about_trials_is_compared(
    plan: dict[str, object], trial: dict[str, object], refused: list[str], confounded: list[str], noted: list[str]
) -> None:
    base = own(run="one", plan=planned(probe={"enabled": True}))
    other = revise_trials(own(run="two", plan=plan or planned()), lambda _: trial)
    for first, second in ((base, other), (other, base)):
        found = paired(first, second)
        assert [each.field for each in found.refused] == refused
        assert [each.field for each in found.confounders] == confounded
        assert [dict(each.parameters)["field"] for each in found.cautions if each.id == "difference"] == noted


def in_sessions(run: str, **settings: str) -> FakeRun:
    """A run whose load sets these for each of its connections, and whose facts lack them."""
    prints = BASE.model_copy(update={"servers": {"a": SERVER, "b": SERVER}})
    return revise_trials(own(run=run, fingerprint=prints), lambda _: {"session_settings": settings})


def test_settings_of_the_sessions_are_compared_as_those_of_the_server() -> None:
    base = in_sessions("one")
    assert topics(paired(base, in_sessions("two", jit="off", work_mem="1GB"))) == ["jit"]
    assert topics(paired(base, in_sessions("two", jit="off"), "settings.jit")) == []
    assert topics(paired(in_sessions("one", jit="off"), in_sessions("two", jit="off"))) == []
    # a default equals its explicit value
    rows = ("jit", "off", None)
    assert topics(paired(kept(base, rows), kept(in_sessions("two", jit="off"), rows))) == []
    assert differing(in_b(own(), session_settings={"jit": "off"})) == ["jit"]


def test_latencies_of_two_programs_are_confounded() -> None:
    """pgbench leaves out the time in which its threads serve other clients."""
    tools = ("pgbench", "pgbench-log", "sysbench", "table")
    by_tool = {name: rows_run(*[replace(ROW, tool=name)] * 2) for name in tools}

    def found(base: FakeRun, other: FakeRun, metric: Metric = Metric.MEAN) -> list[str]:
        fields = [each.field for each in pairing_between(base, other, metric=metric).confounders]
        return [each for each in fields if "load" not in each]

    assert found(by_tool["pgbench"], by_tool["sysbench"]) == ["latency"]
    assert found(by_tool["pgbench"], by_tool["sysbench"], Metric.TPS) == []
    assert found(by_tool["pgbench"], by_tool["pgbench-log"]) == []
    assert found(by_tool["pgbench"], by_tool["table"]) == []
    assert "latency" in found(own(run="one"), by_tool["pgbench"], Metric.P99)
    both = rows_run(replace(ROW, tool="pgbench"), replace(ROW, tool="sysbench", target="b"))
    (confounder,) = pairing_of_arms(both, "target", "a", "b", Metric.MEAN).confounders
    assert str(confounder.message).startswith("latency: pgbench vs sysbench: ")


def test_versions_that_outputs_print_are_what_imported_targets_are_compared_by() -> None:
    for versions in (("15", "17"), ("15", "15")):
        rows = (
            replace(ROW, target=each, words={"server_version": at}) for each, at in zip("ab", versions, strict=True)
        )
        assert topics(pairing_within(rows_run(*rows), "target", ["a"], ["b"])) == []


def test_a_setting_is_compared_with_the_default_that_it_stands_for() -> None:
    for text, unit, value in (
        ("1GB", None, 1 << 30), ("1024", "MB", 1 << 30), ("16384", "8kB", 128 << 20), ("5min", None, 300_000.0),
        ("300", "s", 300_000.0), ("1GB", "8kB", 1 << 30), ("0.9", None, 0.9), ("-1", None, -1.0), ("on", None, "on"),
        ("pg_stat_statements", None, "pg_stat_statements"), ("16 parsecs", None, "16 parsecs"),
    ):  # fmt: skip
        assert setting_value(text, unit) == value
    # initdb writes max_wal_size into postgresql.conf from version 11 on: before, it is a default
    of_initdb = own(changed_b={"max_wal_size": "1GB"})
    assert differing(kept(of_initdb, ("max_wal_size", "1024", "MB"))) == []
    # where the default is another one, or not on record, it differs
    assert differing(kept(of_initdb, ("max_wal_size", "2048", "MB"))) == ["max_wal_size"]
    assert differing(of_initdb) == ["max_wal_size"]
    (finding,) = of("settings-differ", own(changed_b={"io_method": "worker"}))
    assert finding.message == "io_method differs: absent at a, worker at b"
    settings: Sequence[dict[str, str]] = ({}, {"max_wal_size": "1GB"})
    base, other = runs_of([SERVER.model_copy(update={"settings_changed": each}) for each in settings])
    assert topics(paired(base, other)) == ["max_wal_size"]
    rows = ("max_wal_size", "1024", "MB")
    assert topics(paired(kept(base, rows), kept(other, rows))) == []


def kept(run: FakeRun, *rows: tuple[str, str, str | None]) -> FakeRun:
    return replace(run, kept=rows)


def differing(run: FakeRun) -> list[str]:
    return [str(each.evidence[0].figures["setting"]) for each in of("settings-differ", run)]


@pytest.mark.parametrize(("cpu", "confounders"), [("Xeon 8124M", ["processor"]), ("Xeon 8259CL", [])])
def test_processors_of_one_class_confound_two_targets_of_a_run(cpu: str, confounders: list[str]) -> None:
    run = own(ways=lambda _, name: way(200, "eu-1a", "eu-1a", cpu if name == "b" else "Xeon 8259CL"), fingerprint=BASE)
    assert topics(pairing_within(run, "target", ["a"], ["b"])) == confounders


@pytest.mark.parametrize(("steal", "topics"), [(0.04, ["other load"]), (0.01, [])])
def test_steal_in_one_arm_confounds(steal: float, topics: list[str]) -> None:
    run = add_samples(own(), lambda trial: on_host(steal=steal if trial.target == "b" else 0.0))
    assert [each.topic for each in pairing_within(run, "target", ["a"], ["b"]).confounders] == topics


def test_the_defaults_of_another_version_belong_to_it() -> None:
    settings = {number: {"effective_io_concurrency": "1" if number % 2 else "16"} for number in range(1, 13)}
    of_versions = replace(own(versions=("16.9", "18.6")), server=settings)
    found = pairing_within(of_versions, "target", ["a"], ["b"])
    assert (found.brought, [each.topic for each in found.confounders]) == (["effective_io_concurrency 16 (1)"], [])
    of_machines = pairing_within(replace(own(), server=settings), "protocol", ["a"], ["b"])
    assert (of_machines.brought, [each.topic for each in of_machines.confounders]) == ([], ["effective_io_concurrency"])


FACTS = {
    "built": "/src/postgres, commit 1a2b3c4d5e6f, v3-0001.patch (9f8e7d6c)",
    "configure": "--enable-cassert",
    "data_checksums": True,
    "collation": "de_DE.UTF-8",
    "dataset_marks": ["pgbench scale 20"],
    "indexes": {"public.t": "btree (b)"},
    "pooler": "PgBouncer 1.18.0, transaction pooling, pool of 20",
    "settings_changed": {"fsync": "off"},
    "version": "16.9",
    "version_full": "PostgreSQL 18.6 with assertions",
}
"""Another value for each fact of a server."""
FOUND = {
    "workers": threaded(4),
    "way": own(ways=lambda _, target: way(200, "eu-1a", "eu-1a", f"Xeon of {target}"), fingerprint=BASE),
    "swapping": add_samples(own(), lambda each: each_second(60.0, "paging", swapped_in=1e6 * (each.target == "b"))),
    "errors": failing(b=700),
    "maintenance": add_samples(own(), ran("checkpoints", "timed", "b")),
    "other load": add_samples(own(), lambda trial: on_host(steal=0.04 if trial.target == "b" else 0.0)),
    "cache contents": cached("one", 0.99, 0.96),
    "dataset size": sized(1.06),
    "network path": own(kind_b="dsn", ways=lambda _, name: way(100.0 if name == "a" else 2_500.0)),
    "placement": own(asked_b={"connect": "tcp"}),
}
"""Two arms of a run that differ in each fact of trials, and in what each rule about arms finds."""


def differing_in(field: str) -> FakeRun:
    taken, versions = print_of_b(**{field: FACTS[field]}), ("18.6", "16.9" if field == "version" else "18.6")
    return own(fingerprint=taken, versions=versions, changed_b={"fsync": "off"} if field == "settings_changed" else {})


@pytest.mark.parametrize("fact", [*FACTS, *FOUND])
def test_a_fact_is_seen_by_the_audit_and_by_the_comparison(fact: str) -> None:
    run = differing_in(fact) if fact in FACTS else FOUND[fact]
    passed = {each.message for each in audit(own(fingerprint=print_of_b())) if each.checked}
    assert [each for each in audit(run) if each.checked and each.message not in passed]
    found = pairing_within(run, "protocol", ["a"], ["b"])
    assert found.refused or found.invalid or found.confounders


def test_targets_that_differ_by_what_a_plan_chooses_are_comparable_and_the_difference_is_named() -> None:
    for fact, severity in (("pooler", Severity.CAUTION), ("built", Severity.NOTE)):
        run = differing_in(fact)
        assert pairing_within(run, "target", ["a"], ["b"]).confounders == []
        (finding,) = of("arms-differ", run)
        assert (finding.evidence[0].figures["field"], finding.severity) == (fact, severity)
        with_pooler = print_of_b(pooler=FACTS["pooler"]).servers["b"]
        run = arms_of(SERVER.model_copy(update={"collation": "de_DE.UTF-8"}), with_pooler)
        assert "collation" in topics(pairing_within(run, "target", ["a"], ["b"]))


def test_another_server_comes_first_between_runs_if_its_identity_is_on_record() -> None:
    of_each = [
        SERVER.model_copy(
            update={"identity": {"database": "app", "system": system, "state": "primary"}, "collation": each}
        )
        for system, each in (("71", "C"), ("72", "de_DE.UTF-8"))
    ]
    assert topics(pairing_within(arms_of(*of_each), "protocol", ["a"], ["b"])) == ["collation"]
    first, second = runs_of(of_each)
    assert paired(first, second).confounders[0].topic == "server"
    assert "server" not in topics(paired(first, second, "server"))
    known = SERVER.model_copy(update={"identity": {"database": "app", "state": "primary"}})
    found = paired(*runs_of([SERVER, known]))
    assert topics(found) == []
    assert any("identity.database" in str(each) for each in found.cautions)


def test_a_standby_and_tls_confound_what_a_dsn_does_not_show() -> None:
    for field, states, topic, words in (
        ("state", ("primary", "standby"), "standby", "b is a standby"),
        ("state", ("standby", "primary"), "standby", "a is a standby"),
        ("tls", ("on", "off"), "TLS", "TLS for one of them only"),
    ):
        of_each = [SERVER.model_copy(update={"identity": {"database": "app", field: each}}) for each in states]
        run = arms_of(*of_each)
        (found,) = pairing_within(run, "target", ["a"], ["b"]).confounders
        assert (found.topic, words in str(found.message)) == (topic, True)
        (finding,) = of("arms-differ", run)
        assert words in finding.message
        first, second = runs_of(of_each)
        assert topics(paired(first, second)) == [topic]
        assert topics(paired(first, second, "server")) == []


def test_changed_scripts_are_compared_if_that_is_asked() -> None:
    hashes = ({"scripts": ["q.sql"], "files": {"q.sql": digest}} for digest in ("a1" * 32, "b2" * 32))
    prints = [BASE.model_copy(update={"workload": each}) for each in hashes]
    first, second = (own(run=name, fingerprint=each) for name, each in zip(("one", "two"), prints, strict=True))
    (refused,) = paired(first, second).refused
    assert str(words_of(refused)) == "q.sql has another text"
    table = environment_table([refused])
    assert table is not None
    assert table.rows == (("workload.files.q.sql", "refused", "a1" * 4, "b2" * 4, "q.sql has another text"),)
    found = paired(first, second, "scripts")
    assert found.refused == []
    assert any("q.sql has another text" in str(each) for each in found.cautions)


def test_no_fact_is_without_a_case() -> None:
    # within a run, the plan chooses servers that were there before
    assert ServerPrint.model_fields.keys() - FACTS.keys() == {"loaded_without_wal", "identity"}
    of_prints = {"hardware", "setting", "version"}
    assert {rule.topic for rule in PAIR_RULES} - FOUND.keys() == of_prints
