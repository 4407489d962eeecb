"""Small outputs that once imported wrongly: every trial, and every line that is listed."""

import tomllib
from pathlib import Path
from typing import Any

import pytest

from pgdyno.errors import StoreError
from pgdyno.importers.write import import_files
from pgdyno.records import Outcome, TrialRecord
from pgdyno.store import load_run

GOLDEN = Path(__file__).parents[1] / "golden" / "small-outputs"
CASES = tomllib.loads((GOLDEN / "cases.toml").read_text(encoding="utf-8"))["case"]
POINT = ("clients", "workers", "scale", "protocol", "variables")


def test_every_file_is_a_case() -> None:
    assert {case["file"] for case in CASES} == {path.name for path in GOLDEN.iterdir()} - {"cases.toml"}


def value(trial: TrialRecord, name: str, statements: list[float]) -> object:
    assert trial.imported is not None
    if name in POINT:
        return getattr(trial.point, name)
    if name in ("target", "repeat"):
        return getattr(trial, name)
    if name in ("words", "load", "line"):
        return getattr(trial.imported, name)
    return statements if name == "statements" else trial.imported.figures.get(name)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["file"])
def test_a_small_output_is_read_right(case: dict[str, Any], tmp_path: Path) -> None:
    file = GOLDEN / case["file"]
    if not case["trials"]:
        with pytest.raises(StoreError) as caught:
            import_files([file], tmp_path)
        assert f"{file.name}:{case['unread'][0]}: " in str(caught.value.hint)
        return
    result = import_files([file], tmp_path)
    assert [line.line for line in result.left_out] == case.get("left_out", [])
    assert [line.line for line in result.unread] == case.get("unread", []), result.unread
    run = load_run(result.run)
    assert len(run.trials) == len(case["trials"])
    for trial, right in zip(run.trials, case["trials"], strict=True):
        rows = [row for row in run.statements() if row.trial == trial.number]
        means = [round((row.latency_mean_ns or 0) / 1e6, 6) for row in rows]
        failure = right.pop("failure", None)
        assert trial.outcome is (Outcome.FINISHED if failure is None else Outcome.FAILED)
        assert failure is None or (trial.failure is not None and failure in trial.failure.message)
        for name, wanted in (case.get("same", {}) | right).items():
            found = value(trial, name, means)
            if isinstance(wanted, dict) and wanted:
                assert isinstance(found, dict)
                found = {key: found.get(key) for key in wanted}
            assert found == wanted, (name, trial.imported)
