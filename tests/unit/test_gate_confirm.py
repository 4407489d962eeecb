"""`pgdyno gate --confirm`: a second measurement decides about suspected regressions."""

from pathlib import Path

import pytest
from simulations.confirmation import alarms

from pgdyno.analyse.gate import Gate, GateVerdict, gate
from pgdyno.commands.comparison import gate_confirmation
from pgdyno.commands.comparison.compared_runs import Compared, ComparedRuns
from pgdyno.errors import PgdynoError, UsageError
from tests.cli.test_compare import store_run

pytestmark = pytest.mark.slow


def suspected(folder: Path) -> tuple[Gate, Compared, ComparedRuns]:
    name = store_run(folder / "runs", {"pg17": 600.0, "pg18": 500.0}, 8)
    what = Compared(name, None, folder / "runs", None, "target", "pg17", None)
    runs = ComparedRuns.read(what)
    (arms,) = runs.arms()
    return gate(arms, 0.03), what, runs


@pytest.mark.parametrize(
    ("second", "verdict"),
    [({"pg17": 600.0, "pg18": 500.0}, GateVerdict.REGRESSION), ({"pg17": 600.0, "pg18": 601.0}, GateVerdict.OK)],
)
def test_the_second_measurement_decides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, second: dict[str, float], verdict: GateVerdict
) -> None:
    again = store_run(tmp_path / "again", second, 8)
    judged, what, runs = suspected(tmp_path)
    assert judged.verdict is GateVerdict.REGRESSION
    monkeypatch.setattr(gate_confirmation, "_plan_of", lambda *_: None)
    monkeypatch.setattr(gate_confirmation, "_measure", lambda *_, **__: Path(again))
    found = gate_confirmation.confirm_gate(judged, what, runs, json=True)
    assert found.judged.verdict is verdict
    confirmed = int(verdict is GateVerdict.REGRESSION)
    assert f"{confirmed} of 1 suspected regressions confirmed" in str(found.notes[0])


def test_a_regression_that_cannot_be_measured_again_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> Path:
        raise UsageError("no server")

    judged, what, runs = suspected(tmp_path)
    monkeypatch.setattr(gate_confirmation, "_plan_of", lambda *_: None)
    monkeypatch.setattr(gate_confirmation, "_measure", fails)
    found = gate_confirmation.confirm_gate(judged, what, runs, json=True)
    assert found.judged.verdict is GateVerdict.REGRESSION
    assert "still counts: no server" in str(found.notes[0])


def test_runs_on_object_storage_are_not_repeated(tmp_path: Path) -> None:
    judged, what, runs = suspected(tmp_path)
    remote = Compared("s3://bucket/run", None, what.runs, None, "target", "pg17", None)
    with pytest.raises(PgdynoError, match="object storage"):
        gate_confirmation.confirm_gate(judged, remote, runs, json=True)


def test_confirmation_makes_false_alarms_rare_where_instances_differ() -> None:
    alone, again = alarms(20_000, 0.02, 0.0, 0.0)
    assert alone > 0.02
    assert again < 0.005
    # what lasts from run to run is beyond it
    alone, again = alarms(20_000, 0.02, 1.0, 0.0)
    assert again > alone / 4
    alone, again = alarms(20_000, 0.01, 0.0, -0.1)
    assert again > 0.7
