"""`pgdyno gate --confirm`: a second measurement decides about suspected regressions."""

from functools import partial
from pathlib import Path

import pytest
from simulations.confirmation import alarms

from pgdyno.analyse.gate import GateVerdict, gate
from pgdyno.commands.comparison import gate_confirmation
from pgdyno.commands.comparison.compared_runs import Compared, ComparedRuns
from pgdyno.errors import PgdynoError, UsageError
from tests.cli.test_compare import store_run

pytestmark = pytest.mark.slow


def test_a_second_measurement_decides_about_a_suspected_regression(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slower, same = {"pg17": 600.0, "pg18": 500.0}, {"pg17": 600.0, "pg18": 601.0}
    what = Compared(store_run(tmp_path / "runs", slower, 8), None, tmp_path / "runs", None, "target", "pg17", None)
    runs = ComparedRuns.read(what)
    (arms,) = runs.arms()
    suspected = gate(arms, 0.03)
    assert suspected.verdict is GateVerdict.REGRESSION
    remote = Compared("s3://bucket/run", None, what.runs, None, "target", "pg17", None)
    with pytest.raises(PgdynoError, match="object storage"):
        gate_confirmation.confirm_gate(suspected, remote, runs, json=True)

    def measure(second: dict[str, float] | None, *_: object, **__: object) -> Path:
        if second is None:
            raise UsageError("no server")
        return Path(store_run(tmp_path / "again", second, 8))

    monkeypatch.setattr(gate_confirmation, "_plan_of", lambda *_: None)
    for second, verdict, note in (
        (slower, GateVerdict.REGRESSION, "1 of 1 suspected regressions confirmed"),
        (same, GateVerdict.OK, "0 of 1 suspected regressions confirmed"),
        # one that cannot be measured again stands
        (None, GateVerdict.REGRESSION, "still counts: no server"),
    ):
        monkeypatch.setattr(gate_confirmation, "_measure", partial(measure, second))
        found = gate_confirmation.confirm_gate(suspected, what, runs, json=True)
        assert found.judged.verdict is verdict
        assert note in str(found.notes[0])


def test_confirmation_makes_false_alarms_rare_where_instances_differ() -> None:
    alone, again = alarms(20_000, 0.02, 0.0, 0.0)
    assert alone > 0.02
    assert again < 0.005
    # what lasts from run to run is beyond it
    alone, again = alarms(20_000, 0.02, 1.0, 0.0)
    assert again > alone / 4
    alone, again = alarms(20_000, 0.01, 0.0, -0.1)
    assert again > 0.7
