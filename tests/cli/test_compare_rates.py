"""`pgdyno compare` and `pgdyno gate` by latency in an open loop: transactions that never started have no latency."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from pgdyno.errors import ExitCode
from pgdyno.records import Point, TargetRecord
from pgdyno.store import RunFolder
from tests.cli.conftest import Run
from tests.json_schema import validated
from tests.present import present
from tests.unit.events_sample import sample_events
from tests.unit.store_sample import SETTINGS, sample_manifest, sample_record

RATE = 1000.0
SERVED = {"scheduled": 2000, "succeeded": 2000, "tps": RATE}


def paced(
    parent: Path, of_b: Mapping[str, float], late: Sequence[int] = range(1, 9), targets: Sequence[str] = ("a", "b")
) -> str:
    """A run of two targets at a rate, whose p99 is 9.6 ms at the first and 9.0 ms at the last; `of_b` are figures of
    the last target in the repeats `late`. Its path.
    """
    records = [TargetRecord(name=name, kind="embedded", asked={"version": "18"}) for name in targets]
    folder = RunFolder.create(parent, sample_manifest(trials_planned=8 * len(targets), targets=records))
    number = 0
    for repeat in range(1, 9):
        for target in targets:
            number += 1
            events = sample_events(4, 2, RATE, 900, seed=number)
            record = sample_record(number, events, target=target, repeat=repeat)
            summary = present(record.summary)
            figures = {**SERVED, **(of_b if target == targets[-1] and repeat in late else {})}
            p99 = (9_000_000 if target == "b" else 9_600_000) + 10_000 * (number % 3)
            latency = present(summary.latency_ns).model_copy(update={"p99": p99, "p999": p99, "max": p99})
            update = {
                "summary": summary.model_copy(update={**figures, "latency_ns": latency}),
                "point": Point(clients=4, rate=RATE),
                "slug": f"{number:04d}-{target}",
            }
            record = record.model_copy(update=update)
            folder.begin_trial(record.slug).commit(record, events=events, settings=SETTINGS)
    return str(folder.path)


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
    page = tmp_path / "page.html"
    run("pgdyno", "report", path, "--html", str(page))
    assert "b is faster than a" not in page.read_text()


def test_trials_of_a_point_do_not_count_only_if_they_keep_up(run: Run, tmp_path: Path) -> None:
    """The six trials of b that serve the whole load are its best ones."""
    path = paced(tmp_path / "runs", UNSTARTED, late=(1, 2))
    assert run("pgdyno", "compare", path).returncode == ExitCode.INVALID
    served = paced(tmp_path / "runs", {"scheduled": 1990, "succeeded": 1990, "unstarted": 10})
    shown = run("pgdyno", "compare", served).stdout
    assert shown.startswith("Confounded by skipped transactions: ")
    assert "b is faster than a by p99 latency" in shown
    assert "confounder: skipped: 0.00 % vs 0.50 %: " in shown


def test_two_runs_of_which_one_serves_a_part_of_the_load_are_refused(run: Run, tmp_path: Path) -> None:
    runs = [paced(tmp_path / "runs", of, targets=["b"]) for of in ({}, UNSTARTED)]
    refused = run("pgdyno", "gate", *runs, "--max-regression", "3%")
    assert refused.returncode == ExitCode.INVALID
    assert "skipped: up to 40.0 % of the transactions" in refused.stdout
