"""Published outputs: the trials, warm-up runs and unread lines of each were counted by hand."""

import tomllib
from pathlib import Path
from typing import Any

import pytest

from pgdyno.errors import StoreError
from pgdyno.importers.write import import_files
from pgdyno.store import load_run
from tests.present import present

GOLDEN = Path(__file__).parents[1] / "golden" / "published-outputs"
CASES = tomllib.loads((GOLDEN / "cases.toml").read_text(encoding="utf-8"))["case"]


def test_every_file_is_a_case() -> None:
    files = {path.name for path in GOLDEN.iterdir()} - {"README.md", "cases.toml"}
    assert {case["file"] for case in CASES} == files
    assert len(files) >= 30


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["file"])
def test_a_published_output_has_the_trials_that_a_reader_counts(case: dict[str, Any], tmp_path: Path) -> None:
    file = GOLDEN / case["file"]
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
