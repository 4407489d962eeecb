"""A wheel built from the source distribution has the same files as one built from a clone."""

import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest

import third_party
from tests.unit.wheel_environment import without_compiler

ROOT = Path(__file__).parents[2]
UV = ROOT / ".venv" / "bin" / "uv"


def wheel_files(source: Path, folder: Path, environment: dict[str, str]) -> dict[str, int]:
    subprocess.run([UV, "build", "--quiet", "--wheel", f"--out-dir={folder}"], cwd=source, env=environment, check=True)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return {each.filename: each.file_size for each in archive.infolist()}


@pytest.mark.long
def test_the_source_distribution_has_everything_that_a_wheel_is_built_from(tmp_path: Path) -> None:
    environment = without_compiler(tmp_path)
    subprocess.run([UV, "build", "--quiet", "--sdist", f"--out-dir={tmp_path}"], cwd=ROOT, check=True)
    (source,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(source) as archive:
        archive.extractall(tmp_path, filter="data")
    unpacked = tmp_path / source.name.removesuffix(".tar.gz")
    here = wheel_files(ROOT, tmp_path / "from-clone", environment)
    there = wheel_files(unpacked, tmp_path / "from-source", environment)
    assert there == here
    assert f"pgdyno/{third_party.NAME}" in there
