"""Which machines `make dist-check` looks at."""

import hashlib
from pathlib import Path

import pytest

from tests import release
from tests.release import ReleaseError, made

EMPTY = hashlib.sha256().hexdigest()


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


def test_a_machine_that_is_asked_for_must_be_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checked: list[str] = []
    for name in ("check_wheel", "check_archive", "run_version", "use"):
        monkeypatch.setattr(release, name, lambda *given: checked.append(str(given[0])))
    monkeypatch.setattr(release, "check_source", lambda _dist: "1.0")
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    names = ("pgdyno-1.0-py3-none-manylinux_2_17_x86_64.musllinux_1_1_x86_64.whl", "pgdrive-1.0-x86_64-linux.tar.gz")
    for name in names:
        (tmp_path / name).touch()
    (tmp_path / "SHA256SUMS").write_text(f"{EMPTY}  {names[0]}\n{EMPTY}  {names[1]}\n")
    release.main(tmp_path)
    assert checked == [str(tmp_path / name) for name in names] + [str(tmp_path), str(tmp_path / names[0])]
    with pytest.raises(ReleaseError, match=r"0 files .*aarch64"):
        release.main(tmp_path, ["x86_64", "aarch64"])
