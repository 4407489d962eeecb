"""`pgdyno compare` in an open loop: transactions that never started have no latency; and with noise floors."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from pgdyno.errors import ExitCode
from pgdyno.records import Fingerprint, Point, ServerFacts, TargetRecord
from tests.cli.conftest import Run
from tests.cli.test_compare import store_run
from tests.json_schema import validated
from tests.unit.test_fingerprint import BASE, SERVER

RATE = 1000.0


def paced(parent: Path, of_b: Mapping[str, float], late: Sequence[int] = range(1, 9), targets: str = "ab") -> str:
    """A run of these targets at a rate, whose p99 is 9.6 ms at a and 9.0 ms at b; `of_b` are figures of b in the
    repeats `late`. Its path.
    """
    records = [TargetRecord(name=name, kind="embedded", asked={"version": "18"}) for name in targets]
    points = [Point(clients=4, rate=RATE)]
    path = store_run(parent, dict.fromkeys(targets, RATE), repeats=8, points=points, targets=records)
    for file in Path(path).glob("trials/*/trial.json"):
        record = json.loads(file.read_text())
        p99 = (9_000_000 if record["target"] == "b" else 9_600_000) + 10_000 * (record["number"] % 3)
        record["summary"]["latency_ns"] |= {"p99": p99, "p999": p99, "max": p99}
        record["summary"] |= {"scheduled": 2000, "succeeded": 2000, "tps": RATE}
        if record["target"] == "b" and record["repeat"] in late:
            record["summary"] |= of_b
        file.write_text(json.dumps(record))
    return path


UNSTARTED = {"scheduled": 1200, "succeeded": 1200, "unstarted": 800, "tps": 600.0}
SKIPPED = {"succeeded": 1200, "skipped": 800, "tps": 600.0}


@pytest.mark.long_cases("of_b1")
@pytest.mark.parametrize("of_b", [UNSTARTED, SKIPPED])
def test_an_arm_that_serves_a_part_is_not_faster(run: Run, tmp_path: Path, of_b: Mapping[str, float]) -> None:
    path = paced(tmp_path / "runs", of_b)
    refused = run("pgdyno", "compare", path)
    assert refused.returncode == ExitCode.INVALID
    assert "skipped: up to 40.0 % of the transactions that were due were not started in 8 trials" in refused.stdout
    assert "faster" not in refused.stdout
    assert run("pgdyno", "gate", path, "--max-regression", "3%").returncode == ExitCode.INVALID
    answer = validated("compare", run("pgdyno", "compare", path, "--json").stdout)
    assert [each["rule"] for each in answer["invalid"]] == ["skipped"]
    # a low throughput is a result
    assert "b is slower than a by throughput" in run("pgdyno", "compare", path, "--metric", "tps").stdout
    run("pgdyno", "report", path, "--html", "page.html")
    assert "b is faster than a" not in (tmp_path / "page.html").read_text()


def test_trials_of_a_point_do_not_count_only_if_they_keep_up(run: Run, tmp_path: Path) -> None:
    """The six trials of b that serve the whole load are its best ones."""
    path = paced(tmp_path / "runs", UNSTARTED, late=(1, 2))
    assert run("pgdyno", "compare", path).returncode == ExitCode.INVALID
    served = paced(tmp_path / "runs", {"scheduled": 1990, "succeeded": 1990, "unstarted": 10})
    shown = run("pgdyno", "compare", served).stdout
    assert shown.startswith("Confounded by skipped transactions: ")
    assert "b is faster than a by p99 latency" in shown
    assert "confounder: skipped: 0.00 % vs 0.50 %: " in shown
    # of two runs, too
    runs = [paced(tmp_path / "runs", of, targets="b") for of in ({}, UNSTARTED)]
    refused = run("pgdyno", "gate", *runs, "--max-regression", "3%")
    assert refused.returncode == ExitCode.INVALID
    assert "skipped: up to 40.0 % of the transactions" in refused.stdout


def targets(**settings_b: str) -> list[TargetRecord]:
    known: dict[str, Any] = {"version": "18.6", "version_full": "PostgreSQL 18.6", "data_checksums": True}
    facts = {name: ServerFacts(**known, settings_changed=each) for name, each in (("a", {}), ("b", settings_b))}
    return [TargetRecord(name=name, kind="embedded", asked={}, facts=each) for name, each in facts.items()]


def of_two(settings_b: Mapping[str, str] | None = None, **host: object) -> Fingerprint:
    changed = {**SERVER.settings_changed, **(settings_b or {})}
    servers = {"a": SERVER, "b": SERVER.model_copy(update={"settings_changed": changed})}
    return BASE.model_copy(update={"servers": servers, "host": BASE.host.model_copy(update=host)})


def equal_arms(folder: Path, b: float, **host: Any) -> str:  # noqa: ANN401
    return store_run(folder, {"a": 500.0, "b": b}, fingerprint=of_two(**host), targets=targets())


def test_only_two_equal_arms_show_what_noise_is(run: Run, tmp_path: Path) -> None:
    compare = ("pgdyno", "compare", equal_arms(tmp_path / "runs", 530.0), "--floor-from")
    of_settings: dict[str, Any] = {"fingerprint": of_two({"jit": "off"}), "targets": targets(jit="off")}
    why = "its arms a and b are not equal: servers.a.settings_changed.jit: default vs off"
    unequal = [(store_run(tmp_path, {"a": 500.0, "b": 530.0}, **of_settings), why)]
    shown = run("pgdyno", "compare", unequal[0][0], "--noise-floor")
    assert shown.returncode == ExitCode.INVALID
    assert "two equal arms differ by at most" not in shown.stdout
    # points are no arms
    memories = [Point(clients=4, settings={"work_mem": each}) for each in ("4MB", "64MB")]
    scales = [Point(clients=4, scale=each) for each in (10, 20)]
    for points, what in ((memories, "settings.work_mem is 4MB or 64MB"), (scales, "scale is 10 or 20")):
        unequal.append((store_run(tmp_path, {"a": 500.0}, points=points), f" are not equal: {what}"))
    unequal.append((equal_arms(tmp_path, 535.0), "a and b differ at 4 clients although they should be equal"))
    for floor, why in unequal:
        refused = run(*compare, floor)
        assert refused.returncode == ExitCode.INVALID
        assert why in refused.stdout
    # a difference within delta is what a floor is there for
    accepted = run(*compare, equal_arms(tmp_path, 503.0))
    assert accepted.returncode == ExitCode.OK
    assert "b is faster than a" in accepted.stdout
    assert "other conditions" not in accepted.stdout
    # that of another machine is named
    shown = run(*compare, equal_arms(tmp_path, 503.0, cpu_model="Slow CPU", kernel="3.2"))
    words = " ".join(shown.stdout.split())
    assert "other conditions than the comparison: host.cpu_model: " in words
    assert "other conditions than the comparison: host.kernel: " in words
