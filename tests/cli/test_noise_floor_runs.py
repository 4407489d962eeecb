"""`--floor-from` and `--noise-floor`: only two equal arms, on the same machine, show what noise is."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from pgdyno.errors import ExitCode
from pgdyno.records import Fingerprint, Point, ServerFacts, TargetRecord
from tests.cli.conftest import Run
from tests.cli.test_compare import stored
from tests.unit.test_fingerprint import BASE, SERVER


def targets(**settings_b: str) -> list[TargetRecord]:
    return [
        TargetRecord(
            name=name,
            kind="embedded",
            asked={},
            facts=ServerFacts(
                version="18.6", version_full="PostgreSQL 18.6", settings_changed=changed, data_checksums=True
            ),
        )
        for name, changed in (("a", {}), ("b", settings_b))
    ]


def of_two(settings_b: Mapping[str, str] | None = None, **host: object) -> Fingerprint:
    changed = {**SERVER.settings_changed, **(settings_b or {})}
    servers = {"a": SERVER, "b": SERVER.model_copy(update={"settings_changed": changed})}
    return BASE.model_copy(update={"servers": servers, "host": BASE.host.model_copy(update=host)})


@pytest.fixture
def main(tmp_path: Path) -> str:
    return stored(tmp_path / "runs", {"a": 500.0, "b": 530.0}, fingerprint=of_two(), targets=targets())


@pytest.mark.parametrize("settings", [{"jit": "off"}, {"random_page_cost": "1.1"}])
def test_other_settings_are_no_equal_arms(run: Run, tmp_path: Path, main: str, settings: dict[str, str]) -> None:
    floor = stored(tmp_path, {"a": 500.0, "b": 530.0}, fingerprint=of_two(settings), targets=targets(**settings))
    refused = run("pgdyno", "compare", main, "--floor-from", floor)
    assert refused.returncode == ExitCode.INVALID
    (name, value), *_ = settings.items()
    assert f"its arms a and b are not equal: servers.a.settings_changed.{name}: default vs {value}" in refused.stdout
    shown = run("pgdyno", "compare", floor, "--noise-floor")
    assert shown.returncode == ExitCode.INVALID
    assert "two equal arms differ by at most" not in shown.stdout


@pytest.mark.parametrize(
    ("points", "why"),
    [
        ([{"settings": {"work_mem": each}} for each in ("4MB", "64MB")], "settings.work_mem is 4MB or 64MB"),
        ([{"scale": each} for each in (10, 20)], "scale is 10 or 20"),
    ],
)
def test_points_are_no_arms(run: Run, tmp_path: Path, main: str, points: list[dict[str, object]], why: str) -> None:
    swept = [Point.model_validate({"clients": 4, **each}) for each in points]
    floor = stored(tmp_path, {"a": 500.0}, points=swept)
    refused = run("pgdyno", "compare", main, "--floor-from", floor)
    assert refused.returncode == ExitCode.INVALID
    assert f" are not equal: {why}" in refused.stdout


def test_arms_that_are_shown_to_differ_are_no_equal_arms(run: Run, tmp_path: Path, main: str) -> None:
    floor = stored(tmp_path, {"a": 500.0, "b": 535.0}, fingerprint=of_two(), targets=targets())
    refused = run("pgdyno", "compare", main, "--floor-from", floor)
    assert refused.returncode == ExitCode.INVALID
    assert "a and b differ at 4 clients although they should be equal" in refused.stdout
    # a difference within delta is what a floor is there for
    close = stored(tmp_path, {"a": 500.0, "b": 503.0}, fingerprint=of_two(), targets=targets())
    accepted = run("pgdyno", "compare", main, "--floor-from", close)
    assert accepted.returncode == ExitCode.OK
    assert "b is faster than a" in accepted.stdout
    assert "other conditions" not in accepted.stdout


def test_a_floor_from_another_machine_is_named(run: Run, tmp_path: Path, main: str) -> None:
    slow = of_two(cpu_model="Slow CPU", kernel="3.2")
    floor = stored(tmp_path, {"a": 500.0, "b": 500.0}, fingerprint=slow, targets=targets())
    shown = " ".join(run("pgdyno", "compare", main, "--floor-from", floor).stdout.split())
    assert "other conditions than the comparison: host.cpu_model: " in shown
    assert "other conditions than the comparison: host.kernel: " in shown
