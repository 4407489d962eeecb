"""A run stops before a disk is full."""

from pathlib import Path

import pytest

from pgdyno.errors import ExitCode, StopRunError
from pgdyno.experiment.limits.disk_guard import DiskGuard
from pgdyno.units import parse_bytes

GB = 1 << 30


class Disk:
    def __init__(self) -> None:
        self.free, self.now = 9 * GB, 0.0
        self.asked: list[Path] = []

    def left(self, path: Path) -> int:
        self.asked.append(path)
        return self.free

    def guard(self, limit: str | None) -> DiskGuard:
        return DiskGuard(limit, free=self.left, clock=lambda: self.now)


def test_the_guard_stops_the_run_and_names_disk_and_space(tmp_path: Path) -> None:
    disk = Disk()
    guard, unlimited = disk.guard("8GB"), disk.guard(None)
    for each in (guard, unlimited):
        each.watch("the run's folder", tmp_path)
        each.check()
    disk.free, disk.now = 7 * GB, 2.0
    unlimited.check()
    assert disk.asked == [tmp_path]
    with pytest.raises(StopRunError) as caught:
        guard.check()
    assert caught.value.exit_code is ExitCode.STOPPED
    assert caught.value.message == (
        f"only 7.0 GiB is free at {tmp_path}, where the run's folder is; the plan's min_free_disk is 8GB"
    )


def test_the_guard_checks_each_file_system_once_a_second(tmp_path: Path) -> None:
    disk = Disk()
    guard = disk.guard("8GB")
    cluster = tmp_path / "data"
    (cluster / "pg_tblspc").mkdir(parents=True)
    (cluster / "pg_wal").symlink_to("/proc")
    (cluster / "pg_tblspc" / "16384").symlink_to("/sys")
    guard.watch("the run's folder", tmp_path)
    guard.watch_cluster("pg18", cluster)
    guard.watch("what is not there", tmp_path / "nowhere")
    for disk.now in (0.0, 0.1, 0.9, 1.0, 1.5, 2.0):
        guard.check()
    # the cluster's own file system is the run's
    assert disk.asked == [tmp_path, cluster / "pg_wal", cluster / "pg_tblspc" / "16384"] * 3


def test_sizes_have_postgresqls_units() -> None:
    counts = {"1B": 1, "8kB": 8192, "512MB": 512 << 20, "1.5GB": 3 << 29, " 2 TB ": 2 << 40}
    assert {text: parse_bytes(text) for text in counts} == counts
    for text in ("", "5", "GB", "5 gb", "-1GB", "1GBs"):
        with pytest.raises(ValueError, match="is not a size"):
            parse_bytes(text)
