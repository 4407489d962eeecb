"""A finding names exactly the trials that it concerns, because a comparison may leave those out."""

import pytest

from pgdyno.records import Outcome, TrialRecord
from pgdyno.records.probe import OverSshRecord
from pgdyno.store.trial_tables import SeriesRow
from tests.unit.audit_disturbed import on_host, ran, rated
from tests.unit.audit_sample import ROW, FakeRun, changed, each_second, of, own, printed, probed


@pytest.mark.parametrize(
    ("rule", "run", "trials"),
    [
        ("other-load", probed(own(), lambda trial: on_host(others=0.2 if trial.number == 7 else 0.01)), [7]),
        ("other-load", probed(own(), lambda trial: on_host(steal=0.03 if trial.number > 10 else 0.0)), [11, 12]),
        ("repeats-spread", rated(lambda trial: 0.8 if trial.number == 5 else 1.0 + trial.number / 1_000), [5]),
        ("maintenance-one-arm", probed(own(), ran("tables", "autovacuums", "b", trials=(4, 6))), [4, 6]),
        ("errors-one-arm", changed(own(), lambda trial: {"outcome": Outcome.FAILED} if trial.number == 4 else {}), [4]),
        ("drift", rated(lambda trial: 0.97**trial.number), [*range(1, 13, 2), *range(2, 13, 2)]),
        (
            "price-unsound",
            printed(
                ROW.but(tps=900.0), ROW.but(latency_mean_ms=20.0), claims=[(1, 1)], claimed="€ 1 (€ 800 / 800 TPS)"
            ),
            [2],
        ),
    ],
)
def test_a_finding_names_its_trials(rule: str, run: FakeRun, trials: list[int]) -> None:
    (finding,) = of(rule, run)
    assert finding.trials == trials


def test_drift_says_how_much_of_the_difference_it_makes() -> None:
    (finding,) = of("drift", rated(lambda trial: 0.97**trial.number))
    assert "throughput changes by -3.0 % from one trial to the next" in finding.message
    assert "drift alone accounts for -3.0 % of b vs a (measured: -3.0 %)" in finding.message


def test_missing_dataset_sizes_come_from_the_probe() -> None:
    def tables(trial: TrialRecord) -> list[SeriesRow]:
        return each_second(60, "relations", size=8e8 if trial.target == "a" else 9e8, indexes=1e8)

    unasked = changed(own(), lambda _: {"prepare": {"dataset_bytes": None}})
    (finding,) = of("dataset-differs", probed(unasked, tables))
    assert "has 900 MB at a and 1.00 GB at b" in finding.message


def test_for_a_host_over_ssh_only_steal_is_known() -> None:
    def over_ssh(trial: TrialRecord) -> dict[str, object]:
        assert trial.probe is not None
        return {"probe": trial.probe.model_copy(update={"over_ssh": OverSshRecord(host="db")})}

    rows = on_host(others=0.3, steal=0.03)
    run = probed(changed(own(kind_b="dsn"), over_ssh), lambda trial: rows if trial.target == "b" else [])
    (finding,) = of("other-load", run)
    assert "the hypervisor gave up to 3 %" in finding.message
    assert finding.trials == [2, 4, 6, 8, 10, 12]
