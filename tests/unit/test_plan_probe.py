"""`[probe]` of a plan: permitted values, and the resulting options of pgprobe."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from pgdyno.plan.optional_sections import ProbeSpec
from pgdyno.probe import LocalProbe, ProbeOutput, StandbyProbes
from pgdyno.records import ProbeRecord
from tests.unit.plan_sample import load, small_plan, the_problem

PLAN = small_plan('scripts = ["tpcb-like"]', "clients = 3", 'duration = "4s"', a="18") + "[probe]\n"


def spec(folder: Path, text: str) -> ProbeSpec:
    return load(folder, PLAN + text).probe


def options(spec: ProbeSpec, data: Path | None = Path("/d")) -> set[str]:
    return set(LocalProbe(spec, {}, data, Path("lines"), Path("log")).options or [])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {"--data=/d", "--waits-hz=10", "--statements=20"}),
        ("log = false\nstatements = 0", {"--no-log", "--statements=0"}),
        ('log = "/var/log/pg/main.csv"', {"--log=/var/log/pg/main.csv"}),
        ("server = false", {"--data=/d", "--no-server"}),
    ],
)
def test_keys_become_options(tmp_path: Path, text: str, expected: set[str]) -> None:
    given = options(spec(tmp_path, text))
    assert expected <= given
    assert any(each.startswith(("--log", "--no-log")) for each in given) == ("log" in text)


def test_over_the_network_there_is_no_log_to_read(tmp_path: Path) -> None:
    assert options(spec(tmp_path, 'log = "/l"'), None) >= {"--no-host", "--waits-hz=1"}
    assert "--log=/l" not in options(spec(tmp_path, 'log = "/l"'), None)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('log = "main.log"', "write the whole path of the log"),
        ("log = 1", "write the whole path of the log"),
        ('log = "/l"\nhost = false', "the log is on the server's host"),
        ("statements = -1", "must be at least 0"),
    ],
)
def test_senseless_keys_are_refused(tmp_path: Path, text: str, message: str) -> None:
    problem = the_problem(tmp_path, PLAN + text)
    assert message in problem.message
    assert problem.path.startswith("probe")
    assert problem.line is not None


def test_a_missing_probe_is_what_a_standby_lacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGDYNO_PGPROBE", str(tmp_path / "none"))
    with StandbyProbes(ProbeSpec(), ["replica-1"], [{}], tmp_path / "probe.jsonl", tmp_path) as probes:
        pass
    said = probes.added(ProbeOutput(ProbeRecord()), [])
    (standby,) = said.record.standbys
    assert (standby.name, standby.active, standby.waits) == ("replica-1", None, {})
    assert "is not executable" in str(standby.message)


QUERY = {"name": "queue", "sql": "SELECT count(*) FROM jobs"}
WRONG_QUERIES: list[tuple[dict[str, object], str]] = [
    ({"query": [QUERY, QUERY]}, "queue is the name of two queries"),
    ({"query": [QUERY], "server": False}, "query needs the probe of the server"),
    ({"query": [QUERY], "enabled": False}, "query needs the probe of the server"),
    ({"query": [QUERY | {"sql": "DELETE FROM jobs"}]}, "writes, and the probe's sessions only read"),
    ({"query": [QUERY | {"sql": " "}]}, "is empty"),
    ({"query": [QUERY | {"every": "10ms"}]}, "is below 0.1 s"),
    ({"query": [QUERY | {"name": "a:b"}]}, "is not a name"),
    ({"query": [QUERY | {"name": f"q{number}"} for number in range(9)]}, "at most 8"),
]


@pytest.mark.parametrize(("section", "message"), WRONG_QUERIES, ids=[message for _, message in WRONG_QUERIES])
def test_wrong_queries_are_refused(section: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        ProbeSpec.model_validate(section)
