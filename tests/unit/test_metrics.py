"""OpenMetrics: names with units, of a stored and of a running experiment; the bottleneck of a trial."""

import csv
import json
import re
import subprocess
from pathlib import Path

import pytest

from pgdyno.errors import UsageError
from pgdyno.metrics import Catalogue, openmetrics
from pgdyno.metrics.endpoint import parse_address
from pgdyno.metrics.meter import Meter, Sampled
from pgdyno.metrics.text import BOUNDS_S, Buckets, text_of
from pgdyno.programs import locate
from pgdyno.records import PlacedLines, Point
from pgdyno.records.probe import wait_class
from pgdyno.report.answers.limits import limit_of, limits_table
from pgdyno.report.export import to_csv
from pgdyno.report.report_content import Extras, digest
from pgdyno.store import RunFolder, load_run
from pgdyno.store.probe_queries import ProbeAverages, counted_waits, probe_averages
from pgdyno.store.probe_tables import write_probed
from tests.unit.events_sample import sample_events
from tests.unit.openmetrics_check import CATALOGUE, parsed, probe_lines
from tests.unit.report_sample import plain_lines, sweep
from tests.unit.store_sample import add_trial, sample_manifest, sample_record


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    folder = RunFolder.create(tmp_path, sample_manifest())
    for number in (1, 2):
        path = add_trial(folder, number)
        probe = tmp_path / "probe.jsonl"
        probe.write_text("".join(json.dumps(each) + "\n" for each in probe_lines()))
        write_probed(path, number, [PlacedLines(probe, 0)])
    return folder


def exported(folder: RunFolder, trial: int | None = None) -> str:
    return b"".join(openmetrics(load_run(folder), trial, CATALOGUE)).decode()


def text_from(meter: Meter) -> str:
    return b"".join(text_of(meter.collect())).decode()


def test_scales_are_those_of_the_csv(tmp_path: Path) -> None:
    for workload, scale, said in (
        ({"scripts": ["select-only"], "dataset": "none"}, None, ""),
        ({"scripts": ["select-only"], "scale": 10}, None, "10"),
        ({"name": "tpch", "scale": 50, "scale_factor": 0.5}, 50, "0.5"),
    ):
        plan = {**sample_manifest().plan, "workload": workload}
        folder = RunFolder.create(tmp_path, sample_manifest(plan=plan))
        add_trial(folder, 1, point=Point(clients=4, scale=scale))
        (row,) = csv.DictReader(to_csv(load_run(folder)).splitlines())
        (info,) = (line for line in exported(folder).splitlines() if "_info{" in line)
        assert (row["scale"], re.findall('scale="(.*?)"', info)) == (said, [said])


def test_names_have_base_units_and_differ() -> None:
    families = {(each.name, each.type, each.unit, each.factor) for each in CATALOGUE.families()}
    assert families == {
        ("pgdyno_cpu_user_ratio", "gauge", "ratio", 1.0),
        ("pgdyno_cpu_steal_ratio", "gauge", "ratio", 1.0),
        ("pgdyno_wal_position_inserted_bytes", "counter", "bytes", 1.0),
        ("pgdyno_process_cpu_seconds", "counter", "seconds", 1e-6),
        ("pgdyno_disk_utilisation_ratio", "gauge", "ratio", 1.0),
        ("pgdyno_disk_read_await_seconds", "gauge", "seconds", 1e-3),
    }
    program = locate("pgprobe", "PGDYNO_PGPROBE", "the probe")
    described = subprocess.run([program, "--describe"], capture_output=True, text=True, check=True).stdout
    names = [each.name for each in Catalogue(described).families()]
    assert len(names) > 100
    assert len(names) == len(set(names))
    assert not [name for name in names if name.endswith(("_total", "_info", "_bucket", "_count", "_sum", "_created"))]


def test_a_stored_run_is_openmetrics_with_times(run: RunFolder) -> None:
    families = parsed(exported(run))
    ends = {}
    for sample in families["pgdyno_transactions"].samples:
        assert sample.timestamp is not None
        ends[tuple(sorted(sample.labels.items()))] = sample.value
    told = sum(value for labels, value in ends.items() if ("outcome", "succeeded") in labels)
    assert told == sum(row.succeeded for row in load_run(run).intervals())
    latencies = families["pgdyno_latency_seconds"]
    counts = [each for each in latencies.samples if each.name.endswith("_count")]
    assert sum({each.labels["trial"] + each.labels["script"]: each.value for each in counts}.values()) == told
    assert latencies.unit == "seconds"
    # counters of the probe are added up, by what stays of their labels
    process = [each for each in families["pgdyno_process_cpu_seconds"].samples if each.labels["trial"] == "1"]
    assert [each.value for each in process] == [0.25, 0.5, 0.75, 1.0]
    assert "activity" not in process[0].labels
    assert {each.value for each in families["pgdyno_cpu_user_ratio"].samples} == {0.5}
    assert families["pgdyno_new_thing"].type == "unknown"
    assert {each.value for each in families["pgdyno_active_sessions"].samples} == {1.5}
    assert {each.labels["trial"] for each in families["pgdyno_trial"].samples} == {"1", "2"}
    # a single trial can be exported
    families = parsed(exported(run, 2))
    assert {each.labels["trial"] for family in families.values() for each in family.samples} == {"2"}
    with pytest.raises(UsageError, match="has no trial 9") as caught:
        exported(run, 9)
    assert caught.value.hint == "its trials are 1 to 2"


def test_scripts_of_one_name_have_series_of_their_own(tmp_path: Path) -> None:
    events = sample_events(4, 2, 500, 900, scripts=2)
    for script in events[0]["scripts"]:
        script["name"] = "own.sql"
    record = sample_record(1, events)
    folder = RunFolder.create(tmp_path, sample_manifest())
    folder.begin_trial(record.slug).commit(record, events=events, settings=[])
    meter = Meter(None)
    meter.trial_started(1, record.slug, None)
    # all but the last, in which one client was left
    for event in events[:-2]:
        meter.handle(event)
    for text in (exported(folder), text_from(meter)):
        families = parsed(text)
        for name in ("pgdyno_transactions", "pgdyno_latency_seconds", "pgdyno_second_latency_seconds"):
            assert {each.labels["script"] for each in families[name].samples} == {"own.sql #1", "own.sql #2"}


def test_buckets_are_those_of_the_histogram() -> None:
    events = sample_events(4, 2, 500, 900)
    interval = next(event for event in events if event["event"] == "interval" and event["scripts"])
    script = interval["scripts"][0]
    buckets = Buckets()
    buckets.add(script["histogram"], script["latency_ns"]["sum"])
    assert buckets.count == script["succeeded"]
    below = [bound for bound in BOUNDS_S if bound * 1e9 < script["latency_ns"]["min"] * 0.99]
    above = [bound for bound in BOUNDS_S if bound * 1e9 > script["latency_ns"]["max"] * 1.01]
    assert below
    assert above
    assert set(buckets.counts[: len(below)]) == {0}
    assert set(buckets.counts[-len(above) :]) == {buckets.count}
    assert sorted(buckets.counts) == list(buckets.counts)


def test_the_bottleneck_of_a_trial(run: RunFolder) -> None:
    first, second = probe_averages(load_run(run))
    assert (first.cpu, first.steal, first.wal_bytes_per_s) == (0.5, 0.0, 1000.0)
    assert (first.waits[0][:2], first.disk, first.disk_utilisation) == (("IO", "WalSync"), "vda", 0.2)
    assert sum(sessions for _, _, sessions in first.waits) == 1.5
    assert second.trial == 2
    assert [each.trial for each in probe_averages(load_run(run), {2})] == [2]
    table = limits_table(digest(load_run(run)), {1: first, 2: second})
    assert table is not None
    assert table.rows[0][:4] == ("4 clients", "WAL", "IO:WalSync 1.5", "50")


def test_a_phase_without_a_result_is_not_in_the_averages(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, sample_manifest())
    events = sample_events(4, 18, 500, 900)
    for event in events:
        if event["event"] == "interval" and 8 <= event["from_us"] / 1e6 < 14:
            event["phase"] = "warm-up"
    path = add_trial(folder, 1, events)
    wait = {"backend_type": "client backend", "wait_type": "Lock", "wait": "tuple", "query_id": None, "sessions": 4}
    lines: list[dict[str, object]] = []
    for second in range(1, 19):
        at = {"t_us": second * 1_000_000, "wall_us": second * 1_000_000}
        inside = 9 <= second <= 13
        row = {"values": {"user": 0.9 if inside else 0.2, "steal": 0.0}}
        lines.append({**at, "event": "sample", "source": "cpu", "span_us": 1_000_000, "rows": [row]})
        lines.append({**at, "event": "waits", "rows": [wait] if inside else []})
    probe = tmp_path / "probe.jsonl"
    probe.write_text("".join(json.dumps(each) + "\n" for each in lines))
    write_probed(path, 1, [PlacedLines(probe, 0)])
    (found,) = probe_averages(load_run(folder))
    assert found.cpu == pytest.approx(0.2)
    assert not found.waits


LOCK = ("Lock", "tuple", 1.0)
WORK = ("CPU", "", 3.0)


def test_sessions_on_a_processor_are_those_the_server_counted() -> None:
    """On a busy host, samples find too few running sessions; waiting ones are found whatever uses the cores."""
    assert counted_waits([WORK, LOCK], 6.0, 1_000) == [("CPU", "", 5.0), LOCK]
    assert counted_waits([LOCK], 6.0, 1_000) == [("CPU", "", 5.0), LOCK]
    # without the counter, with too few transactions, and against what was seen: the looks alone
    for counted, transactions in ((None, 1_000), (6.0, 599), (0.9, 1_000)):
        assert counted_waits([WORK, LOCK], counted, transactions) == [WORK, LOCK]


def seen(**changes: object) -> ProbeAverages:
    figures = {"cpu": 0.5, "steal": 0.0, "waits": (WORK, LOCK)}
    rest = {"wal_bytes_per_s": 1.0, "disk": "vda", "disk_utilisation": 0.1}
    return ProbeAverages(**{"trial": 1, "slug": "0001-a-c1", **figures, **rest, **changes})  # type: ignore[arg-type]


def test_the_limit_in_a_word_and_its_class_of_waits() -> None:
    for changes, expected in (
        ({}, "none found"),
        ({"cpu": 0.95}, "CPU"),
        ({"cpu": 0.95, "steal": 0.06}, "steal"),
        ({"disk_utilisation": 0.93}, "disk"),
        ({"cpu": 0.95, "waits": (("Lock", "tuple", 3.0), WORK)}, "Lock"),
        ({"waits": (("IO", "WALSync", 9.0), WORK)}, "WAL"),
        ({"cpu": 0.99, "waits": (("Client", "ClientRead", 9.0), WORK)}, "CPU"),
        ({"waits": (("Client", "ClientRead", 9.0), WORK)}, "clients"),
        ({"cpu": None, "steal": None, "disk_utilisation": None, "waits": ()}, "unknown"),
    ):
        assert limit_of(seen(**changes)).word == expected
    # sessions between two statements do not contradict a busy host
    about = limit_of(seen(cpu=0.99, waits=(("Client", "ClientRead", 9.0), WORK))).about
    assert about == "host 99 % busy"
    assert "ClientRead" in limit_of(seen(waits=(("Client", "ClientRead", 9.0), WORK))).about
    for kind, wait, expected in (
        ("IO", "WALSync", "WAL"),
        ("LWLock", "WALInsert", "WAL"),
        ("IO", "DataFileRead", "I/O"),
        ("IPC", "ProcArrayGroupUpdate", "other"),
        ("BufferPin", "BufferPin", "Lock"),
        ("Buffer", "BufferCleanup", "Lock"),
        ("Buffer", "BufferExclusive", "LWLock"),
        (None, None, "other"),
    ):
        assert wait_class(kind, wait) == expected


def test_points_have_a_row_each_and_many_are_cut() -> None:
    run = sweep(clients=range(1, 31), repeats=3, seconds=3)
    lines = plain_lines(run, 80, Extras(limits={trial.number: seen(trial=trial.number) for trial in run.trials}))
    at = next(at for at, line in enumerate(lines) if line.startswith("In the probe's samples"))
    assert len([line for line in lines[at:] if re.match(r"\d+ clients? ", line)]) == 24
    assert "and 6 more in the HTML report" in lines
    assert limits_table(digest(run), {}) is None


def test_a_meter_says_what_the_engine_said(tmp_path: Path) -> None:
    events = sample_events(4, 2, 500, 900)
    probe = tmp_path / "probe.jsonl"
    meter = Meter(CATALOGUE)
    assert "pgdyno_trials_total" in text_from(meter)
    meter.run_began("a-run")
    meter.trial_started(3, "0003-a-c4", probe)
    for event in events:
        meter.handle(event)
    families = parsed(text_from(meter))
    transactions = families["pgdyno_transactions"].samples
    assert sum(each.value for each in transactions if each.labels["outcome"] == "succeeded") == sum(
        script["succeeded"] for event in events if event["event"] == "interval" for script in event["scripts"]
    )
    assert families["pgdyno_trial"].samples[0].labels == {"run": "a-run", "trial": "3", "slug": "0003-a-c4"}
    assert sum(each.value for each in families["pgdyno_phase"].samples) == 1
    # the probe's file grows; an incomplete line is read once it is complete
    whole = [json.dumps(each) for each in probe_lines()]
    probe.write_text("\n".join(whole)[:-5])
    before = parsed(text_from(meter))
    assert before["pgdyno_wal_position_inserted_bytes"].samples[0].value == 4000
    assert "pgdyno_new_thing" in before
    assert before["pgdyno_active_sessions"].samples[0].value == 1.5
    probe.write_text("\n".join(whole) + "\n")
    after = parsed(text_from(meter))
    assert after["pgdyno_process_cpu_seconds"].samples[0].value == 1.0
    meter.trial_ended("finished")
    ended = parsed(text_from(meter))
    assert ended["pgdyno_tps"].samples[0].value == 0
    assert {each.labels["outcome"]: each.value for each in ended["pgdyno_trials"].samples}["finished"] == 1


def test_addresses_are_on_loopback_unless_another_is_named() -> None:
    loopback = ("127.0.0.1", 9187)
    for text, expected in (
        ("9187", loopback),
        (":9187", loopback),
        ("0.0.0.0:1", ("0.0.0.0", 1)),
        ("[::1]:0", ("::1", 0)),
    ):
        assert parse_address(text) == expected
    for text in ("", "x", "example.com:9187", "1.2.3.4:70000", "1.2.3.4:-1"):
        with pytest.raises(UsageError, match="needs an address and a port"):
            parse_address(text)


def sample_at(source: str, at_s: int, span_s: int | None, **values: float) -> dict[str, object]:
    rows = [{"labels": {"table": "a"}, "values": values}]
    span_us = None if span_s is None else span_s * 1_000_000
    return {"event": "sample", "source": source, "t_us": at_s * 1_000_000, "span_us": span_us, "rows": rows}


OF_HOST = [sample_at("cpu", at, 1, user=0.1) for at in range(1, 40)]


def samples_by_name(path: Path, *lines: dict[str, object]) -> dict[str, int]:
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return {family.name: len(family.samples) for family in Sampled(path).families(CATALOGUE, {})}


def test_what_went_away_is_not_shown_for_ever(tmp_path: Path) -> None:
    row = {"backend_type": "client backend", "wait_type": "CPU", "wait": None, "sessions": 8}
    look: dict[str, object] = {"event": "waits", "t_us": 1_000_000, "rows": [row]}
    for seconds, sessions in ((4, 1), (8, 0)):
        shown = samples_by_name(tmp_path / "lines", look, *OF_HOST[:seconds])
        assert shown == {"pgdyno_active_sessions": sessions, "pgdyno_cpu_user_ratio": 1}
    # sizes of tables are sampled every 10 s, and seldom scraped within the 5 s after that

    def is_shown(at_s: int, *slow: dict[str, object]) -> bool:
        return samples_by_name(tmp_path / "lines", *slow, *OF_HOST[:at_s]).get("pgdyno_relations_size", 0) > 0

    first, second = sample_at("relations", 1, None, size=8), sample_at("relations", 11, 10, size=8)
    assert is_shown(10, first)
    assert is_shown(20, first, second)
    # a table that is no longer among those sampled, or a server that went away
    assert not is_shown(39, first, second)
