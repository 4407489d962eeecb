"""`pgdyno compare` and `pgdyno gate` over stored runs: output, files, exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from pgdyno.errors import ExitCode
from pgdyno.records import Point
from pgdyno.store import RunFolder
from tests.cli.conftest import Run
from tests.told import told
from tests.unit.events_sample import sample_events
from tests.unit.store_sample import SETTINGS, sample_manifest, sample_record


def stored(parent: Path, tps: dict[str, float], repeats: int = 6, busy: float = 1.0, decline: float = 0.0) -> str:
    """A run with a target for each of `tps`; its figures vary by about one in a thousand. Its path.

    By its latency, `busy` of its clients are at work: anything but all of them cannot be. Each trial is slower than
    the one before by `decline`.
    """
    folder = RunFolder.create(parent, sample_manifest(trials_planned=len(tps) * repeats))
    number = 0
    for repeat in range(1, repeats + 1):
        for target, rate in tps.items():
            number += 1
            events = sample_events(4, 2, rate, 0.9 * 4e6 / rate, seed=number)
            record = sample_record(number, events, target=target, repeat=repeat)
            assert record.summary is not None
            reached = rate * (1 + 0.001 * (number % 3)) * (1 - decline) ** number
            latency = told(record.summary.latency_ns).model_copy(update={"mean": busy * 4e9 / reached})
            summary = record.summary.model_copy(update={"tps": reached, "latency_ns": latency})
            record = record.model_copy(update={"summary": summary, "point": Point(clients=4)})
            folder.begin_trial(record.slug).commit(record, events=events, settings=SETTINGS)
    return str(folder.path)


@pytest.fixture(scope="module")
def versions(tmp_path_factory: pytest.TempPathFactory) -> str:
    """One run for all tests, which only read it."""
    return stored(tmp_path_factory.mktemp("runs"), {"pg17": 500.0, "pg18": 600.0})


def test_targets_within_a_run(run: Run, versions: str) -> None:
    done = run("pgdyno", "compare", versions)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("pg18 is faster than pg17 by throughput: +20")
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_two_runs_and_json(run: Run, tmp_path: Path) -> None:
    before, after = (stored(tmp_path / "runs", {"pg18": rate}) for rate in (600.0, 500.0))
    done = run("pgdyno", "compare", before, after, "--json")
    answer = json.loads(done.stdout)
    (found,) = answer["comparisons"]
    assert (found["paired"], found["points"][0]["verdict"]) == (False, "slower")
    assert any("on record" in note for note in answer["notes"])


def test_what_the_audit_calls_invalid_is_not_compared(run: Run, tmp_path: Path) -> None:
    wrong = stored(tmp_path / "runs", {"pg17": 500.0, "pg18": 600.0}, busy=0.5)
    refused = run("pgdyno", "compare", wrong)
    assert refused.returncode == ExitCode.INVALID
    assert refused.stdout.startswith("No comparison: the audit says that figures are invalid\ninvalid: ")
    assert "littles-law: " in refused.stdout
    assert "faster" not in refused.stdout
    answer = json.loads(run("pgdyno", "compare", wrong, "--json").stdout)
    assert (answer["comparisons"], [each["rule"] for each in answer["invalid"]]) == ([], ["littles-law"])

    forced = run("pgdyno", "compare", wrong, "--force")
    assert forced.returncode == ExitCode.OK
    first, reason, _, sentence, *_ = forced.stdout.splitlines()
    assert first == "not a claim, for figures are invalid:"
    assert "littles-law" in reason
    assert sentence.startswith("pg18 is faster than pg17")
    answer = json.loads(run("pgdyno", "compare", wrong, "--force", "--json").stdout)
    assert (len(answer["comparisons"]), len(answer["invalid"])) == (1, 1)
    # an A/A run that is invalid is no measure of noise
    right = stored(tmp_path / "runs", {"pg17": 500.0, "pg18": 600.0})
    assert run("pgdyno", "compare", right, "--floor-from", wrong).returncode == ExitCode.INVALID


def test_a_decline_from_trial_to_trial_is_no_slower_arm(run: Run, tmp_path: Path) -> None:
    equal = stored(tmp_path / "runs", {"a": 500.0, "b": 500.0}, decline=0.03)
    refused = run("pgdyno", "compare", equal)
    assert refused.returncode == ExitCode.INVALID
    assert "drift: throughput changes by -3.0% from one trial to the next" in refused.stdout
    # what it would have said
    assert "b is slower than a by throughput" in run("pgdyno", "compare", equal, "--force").stdout


def test_a_gate_does_not_judge_what_is_invalid(run: Run, tmp_path: Path) -> None:
    wrong = stored(tmp_path / "runs", {"pg17": 500.0, "pg18": 500.0}, busy=0.5)
    refused = run("pgdyno", "gate", wrong, "--junit", "gate.xml", "--md", "gate.md")
    assert refused.returncode == ExitCode.INVALID
    suite = ElementTree.parse(tmp_path / "gate.xml").getroot()
    assert (suite.get("tests"), suite.get("errors")) == ("1", "1")
    assert "not judged" in (tmp_path / "gate.md").read_text()
    forced = run("pgdyno", "gate", wrong, "--force")
    assert forced.returncode == ExitCode.OK
    assert "littles-law" in forced.stdout


def test_the_noise_floor_of_a_run(run: Run, tmp_path: Path) -> None:
    equal = stored(tmp_path / "runs", {"a": 500.0, "b": 500.0})
    done = run("pgdyno", "compare", equal, "--noise-floor")
    assert done.stdout.startswith("Noise floor: two equal arms differ by no more than 0."), done.stderr
    assert (
        "pg18 is faster"
        in run("pgdyno", "compare", stored(tmp_path, {"pg17": 500, "pg18": 600}), "--floor-from", equal).stdout
    )


@pytest.mark.parametrize(
    ("arms", "repeats", "why"),
    [
        # geometric means apart by 60 %: with such a floor, everything would be the same
        ({"a": 500.0, "b": 800.0}, 6, "wider than 10 %"),
        ({"a": 500.0, "b": 500.0}, 3, "needs at least 6 at every point"),
    ],
)
def test_a_floor_that_is_none_is_refused(
    run: Run, tmp_path: Path, versions: str, arms: dict[str, float], repeats: int, why: str
) -> None:
    floor = stored(tmp_path / "runs", arms, repeats)
    for command in ("compare", "gate"):
        refused = run("pgdyno", command, versions, "--floor-from", floor)
        assert refused.returncode == ExitCode.INVALID, refused.stdout
        assert refused.stdout.startswith("No comparison: the noise floor cannot be used\ninvalid: ")
        assert why in refused.stdout
        assert "\nremedy: " in refused.stdout
        answer = json.loads(run("pgdyno", command, versions, "--floor-from", floor, "--json").stdout)
        assert [each["rule"] for each in answer["invalid"]] == ["noise-floor"]
    # no force makes a floor of it: the difference of 20 % is not called the same
    forced = run("pgdyno", "compare", versions, "--floor-from", floor, "--force")
    assert "pg18 is faster than pg17" in forced.stdout
    shown = run("pgdyno", "compare", floor, "--noise-floor")
    assert shown.returncode == ExitCode.INVALID
    assert shown.stdout.startswith("Not a noise floor to compare by: ")
    (told_json,) = json.loads(run("pgdyno", "compare", floor, "--noise-floor", "--json").stdout)
    assert why in told_json["refused"]["why"]


def test_gate_exits_by_what_it_finds_and_writes_its_files(run: Run, tmp_path: Path, versions: str) -> None:
    files = ["--junit", str(tmp_path / "gate.xml"), "--md", str(tmp_path / "gate.md")]
    good = run("pgdyno", "gate", versions, "--by", "target", "--max-regression", "3%", *files)
    assert good.returncode == ExitCode.OK, good.stderr
    assert ElementTree.parse(tmp_path / "gate.xml").getroot().get("failures") == "0"
    assert (tmp_path / "gate.md").read_text().startswith("### pgdyno gate: ok")
    worse = run("pgdyno", "gate", versions, "--by", "target", "--base", "pg18", *files)
    assert worse.returncode == ExitCode.REGRESSION
    assert ElementTree.parse(tmp_path / "gate.xml").getroot().get("failures") == "1"
    few = stored(tmp_path / "runs", {"pg17": 500.0, "pg18": 500.0}, repeats=3)
    assert run("pgdyno", "gate", few).returncode == ExitCode.INCONCLUSIVE


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["compare", "{}", "--by", "clients"], "nothing called clients"),
        (["compare", "{}", "{}", "--by", "target"], "split one run"),
        (["compare", "{}", "--base", "pg9"], "is not in run"),
        (["gate", "{}", "--max-regression", "0.03"], "is no limit"),
    ],
)
def test_what_makes_no_sense_is_a_usage_error(run: Run, versions: str, arguments: list[str], complaint: str) -> None:
    done = run("pgdyno", *(each.format(versions) for each in arguments))
    assert done.returncode == ExitCode.USAGE
    assert complaint in done.stderr
