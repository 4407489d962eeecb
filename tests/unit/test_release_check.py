"""Which machines `make dist-check` looks at."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.release import ReleaseError, made


def test_what_was_made_is_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("pgdyno-1.0.tar.gz", "SHA256SUMS"):
        (tmp_path / name).touch()
    with pytest.raises(ReleaseError, match="run make dist"):
        made(tmp_path)
    (tmp_path / "pgdyno-1.0-py3-none-manylinux_2_17_x86_64.musllinux_1_1_x86_64.whl").touch()
    assert made(tmp_path) == ["x86_64"]
    assert capsys.readouterr().out == "aarch64: NOT MADE\n"
    # half of a machine's files count, too: the rest is then missed
    (tmp_path / "pgdrive-1.0-aarch64-linux.tar.gz").touch()
    assert made(tmp_path) == ["x86_64", "aarch64"]
