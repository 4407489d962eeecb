"""The metrics of a running experiment, and the address that serves them."""

import json
from pathlib import Path

import pytest

from pgdyno.errors import UsageError
from pgdyno.metrics.endpoint import parse_address
from pgdyno.metrics.meter import Meter, Sampled
from pgdyno.metrics.text import text_of
from tests.unit.events_sample import sample_events
from tests.unit.openmetrics_check import CATALOGUE, parsed, probe_lines


def test_a_meter_says_what_the_engine_said(tmp_path: Path) -> None:
    events = sample_events(4, 2, 500, 900)
    probe = tmp_path / "probe.jsonl"
    meter = Meter(CATALOGUE)
    assert "pgdyno_trials_total" in b"".join(text_of(meter.collect())).decode()
    meter.run_began("a-run")
    meter.trial_started(3, "0003-a-c4", probe)
    for event in events:
        meter.handle(event)
    text = b"".join(text_of(meter.collect())).decode()
    families = parsed(text)
    succeeded = sum(
        each.value for each in families["pgdyno_transactions"].samples if each.labels["outcome"] == "succeeded"
    )
    assert succeeded == sum(
        script["succeeded"] for event in events if event["event"] == "interval" for script in event["scripts"]
    )
    assert families["pgdyno_trial"].samples[0].labels == {"run": "a-run", "trial": "3", "slug": "0003-a-c4"}
    assert sum(each.value for each in families["pgdyno_phase"].samples) == 1
    # the probe's file grows; an incomplete line is read once it is complete
    whole = [json.dumps(each) for each in probe_lines()]
    probe.write_text("\n".join(whole)[:-5])
    before = parsed(b"".join(text_of(meter.collect())).decode())
    assert before["pgdyno_wal_position_inserted_bytes"].samples[0].value == 4000
    assert "pgdyno_new_thing" in before
    assert before["pgdyno_active_sessions"].samples[0].value == 1.5
    probe.write_text("\n".join(whole) + "\n")
    after = parsed(b"".join(text_of(meter.collect())).decode())
    assert after["pgdyno_process_cpu_seconds"].samples[0].value == 1.0
    meter.trial_ended("finished")
    ended = parsed(b"".join(text_of(meter.collect())).decode())
    assert ended["pgdyno_tps"].samples[0].value == 0
    assert {each.labels["outcome"]: each.value for each in ended["pgdyno_trials"].samples}["finished"] == 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("9187", ("127.0.0.1", 9187)),
        (":9187", ("127.0.0.1", 9187)),
        ("0.0.0.0:1", ("0.0.0.0", 1)),
        ("[::1]:0", ("::1", 0)),
    ],
)
def test_addresses_are_on_loopback_unless_another_is_named(text: str, expected: tuple[str, int]) -> None:
    assert parse_address(text) == expected


@pytest.mark.parametrize("text", ["", "x", "example.com:9187", "1.2.3.4:70000", "1.2.3.4:-1"])
def test_a_malformed_address_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="needs an address and a port"):
        parse_address(text)


def test_sessions_of_a_server_that_went_away_are_not_shown_for_ever(tmp_path: Path) -> None:
    row = {"backend_type": "client backend", "wait_type": "CPU", "wait": None, "sessions": 8}
    look = {"event": "waits", "t_us": 1_000_000, "rows": [row]}
    of_host = [
        {"event": "sample", "source": "cpu", "t_us": at * 1_000_000, "rows": [{"labels": {}, "values": {"user": 0.1}}]}
        for at in range(1, 9)
    ]
    lines = tmp_path / "probe.jsonl"

    def shown(*each: object) -> dict[str, int]:
        lines.write_text("".join(f"{json.dumps(line)}\n" for line in each))
        return {family.name: len(family.samples) for family in Sampled(lines).families(CATALOGUE, {})}

    assert shown(look, *of_host[:4]) == {"pgdyno_active_sessions": 1, "pgdyno_cpu_user_ratio": 1}
    assert shown(look, *of_host) == {"pgdyno_active_sessions": 0, "pgdyno_cpu_user_ratio": 1}


def test_a_gauge_is_shown_until_its_source_is_sampled_again(tmp_path: Path) -> None:
    """Sizes of tables are sampled every 10 s, and seldom scraped within the 5 s after that."""

    def sample(source: str, at_s: int, span_s: int | None, **values: float) -> dict[str, object]:
        rows = [{"labels": {"table": "a"}, "values": values}]
        span_us = None if span_s is None else span_s * 1_000_000
        return {"event": "sample", "source": source, "t_us": at_s * 1_000_000, "span_us": span_us, "rows": rows}

    of_host = [sample("cpu", at, 1, user=0.1) for at in range(1, 40)]
    lines = tmp_path / "probe.jsonl"

    def is_shown(at_s: int, *slow: dict[str, object]) -> bool:
        lines.write_text("".join(f"{json.dumps(line)}\n" for line in [*slow, *of_host[:at_s]]))
        families = Sampled(lines).families(CATALOGUE, {})
        return any(family.samples for family in families if family.name == "pgdyno_relations_size")

    first = sample("relations", 1, None, size=8)
    second = sample("relations", 11, 10, size=8)
    assert is_shown(10, first)
    assert is_shown(20, first, second)
    # a table that is no longer among those sampled, or a server that went away
    assert not is_shown(39, first, second)
