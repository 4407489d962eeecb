"""Published outputs, whose trials and unread lines were counted by hand, and small ones that once imported wrongly."""

import tomllib
from pathlib import Path
from typing import Any

import pytest

from pgdyno.errors import StoreError
from pgdyno.importers.write import import_files
from pgdyno.records import Outcome, TrialRecord
from pgdyno.store import load_run
from tests.present import present

GOLDEN = Path(__file__).parents[1] / "golden"
PUBLISHED, SMALL = GOLDEN / "published-outputs", GOLDEN / "small-outputs"
PUBLISHED_CASES, SMALL_CASES = (
    tomllib.loads((folder / "cases.toml").read_text(encoding="utf-8"))["case"] for folder in (PUBLISHED, SMALL)
)
POINT = ("clients", "workers", "scale", "protocol", "variables")


def test_every_file_is_a_case() -> None:
    for folder, cases in ((PUBLISHED, PUBLISHED_CASES), (SMALL, SMALL_CASES)):
        files = {path.name for path in folder.iterdir()} - {"README.md", "cases.toml"}
        assert {case["file"] for case in cases} == files
    assert len(PUBLISHED_CASES) >= 30


@pytest.mark.parametrize("case", PUBLISHED_CASES, ids=lambda case: case["file"])
def test_a_published_output_has_the_trials_that_a_reader_counts(case: dict[str, Any], tmp_path: Path) -> None:
    file = PUBLISHED / case["file"]
    if case["trials"] == 0:
        with pytest.raises(StoreError, match="no output of a known tool") as caught:
            import_files([file], tmp_path)
        assert f"{case['unread']} line with figures not understood, first {file.name}:" in str(caught.value.hint)
        return
    result = import_files([file], tmp_path)
    run = load_run(result.run)
    assert (len(run.trials), len(result.left_out), len(result.unread)) == (
        case["trials"], case.get("left_out", 0), case.get("unread", 0),
    ), result.unread  # fmt: skip
    assert len(run.manifest.targets) == case["targets"], [target.name for target in run.manifest.targets]
    first = present(run.trials[0].imported)
    if "tps" in case:
        assert first.figures["tps"] == case["tps"]
    for trial in run.trials:
        # every figure says where it stood
        assert set(present(trial.imported).figures) <= set(present(trial.imported).printed)


def value(trial: TrialRecord, name: str, statements: list[float]) -> object:
    imported = present(trial.imported)
    if name in POINT:
        return getattr(trial.point, name)
    if name in ("target", "repeat"):
        return getattr(trial, name)
    if name in ("words", "load", "line"):
        return getattr(imported, name)
    return statements if name == "statements" else imported.figures.get(name)


@pytest.mark.parametrize("case", SMALL_CASES, ids=lambda case: case["file"])
def test_a_small_output_is_read_right(case: dict[str, Any], tmp_path: Path) -> None:
    file = SMALL / case["file"]
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
        assert failure is None or failure in present(trial.failure).message
        for name, wanted in (case.get("same", {}) | right).items():
            found = value(trial, name, means)
            if isinstance(wanted, dict) and wanted:
                assert isinstance(found, dict)
                found = {key: found.get(key) for key in wanted}
            assert found == wanted, (name, trial.imported)
