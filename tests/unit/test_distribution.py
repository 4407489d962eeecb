"""What is distributed: third-party notices with each text, the same wheel from each source, the files of a release."""

import hashlib
import re
import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest

import third_party
from tests import release
from tests.release import ReleaseError, made
from tests.unit.wheel_environment import without_compiler

ROOT = Path(__file__).parents[2]
ENTRY = re.compile(r"^(\S+) (\S+)\n  (.+); text ([\d, ]+); \S+$", re.MULTILINE)


@pytest.fixture(scope="module")
def notices() -> str:
    return third_party.notices(ROOT)


def listed(notices: str) -> dict[str, str]:
    """Returns the numbers of notices by name and version; a name can have several versions."""
    return {f"{name} {version}": numbers for name, version, _, numbers in ENTRY.findall(notices)}


def test_the_list_is_what_the_programs_are_compiled_with(notices: str) -> None:
    packages = [f"--package={crate}" for crate in third_party.PROGRAMS.values()]
    command = ["cargo", "tree", "--locked", "--edges=normal", "--prefix=none", "--format={p}", *packages]
    said = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    lines = {line for line in said.splitlines() if line and str(ROOT) not in line}
    crates = {" ".join(line.split()[:2]).replace(" v", " ") for line in lines}
    assert len(crates) > 80
    carried = set(listed(notices))
    more = {each.split()[0] for each in carried - crates}
    # LuaJIT is compiled by a build script
    assert (crates - carried, more) == (set(), {"luajit-src"})


def test_each_has_its_text(notices: str) -> None:
    texts = dict(re.findall(r"^-{80}\ntext (\d+)\n-{80}\n\n((?:(?!^-{80}\ntext ).*\n)+)", notices, re.MULTILINE))
    numbers = {number for each in listed(notices).values() for number in each.split(", ")}
    assert numbers == set(texts)
    for each, own in listed(notices).items():
        # next to a text there may be a few words that say which to choose
        assert max(len(texts[number]) for number in own.split(", ")) > 500, each
    for name, word in (("luajit-src", "Copyright (C) 2005-"), ("ring", "BoringSSL")):
        own = next(numbers for each, numbers in listed(notices).items() if each.startswith(f"{name} "))
        assert any(word in texts[number] for number in own.split(", ")), name


def test_the_pages_carry_nothing_of_others() -> None:
    package = ROOT / "python" / "pgdyno"
    assert not [
        file for file in package.rglob("*") if ".min." in file.name or file.suffix in {".woff", ".woff2", ".ttf"}
    ]
    ours = [file for file in package.rglob("*") if file.suffix in {".js", ".css"}]
    assert ours
    # a head such as minifiers keep
    assert not [file for file in ours if file.read_text().lstrip().startswith("/*!")]


def test_a_crate_without_a_text_is_refused(tmp_path: Path) -> None:
    package = {
        "name": "bare", "version": "1.0.0", "license": "MIT", "license_file": None, "repository": None,
        "manifest_path": str(tmp_path / "Cargo.toml"),
    }  # fmt: skip
    with pytest.raises(third_party.NoticeError, match=r"no licence text for crate bare 1\.0\.0 \(MIT\)"):
        third_party._component(package, [package])


UV = ROOT / ".venv" / "bin" / "uv"


def wheel_files(source: Path, folder: Path, environment: dict[str, str]) -> dict[str, int]:
    subprocess.run([UV, "build", "--quiet", "--wheel", f"--out-dir={folder}"], cwd=source, env=environment, check=True)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return {each.filename: each.file_size for each in archive.infolist()}


@pytest.mark.long
def test_a_wheel_has_the_same_files_from_a_clone_and_from_the_source_distribution(notices: str, tmp_path: Path) -> None:
    environment = without_compiler(tmp_path)
    subprocess.run([UV, "build", "--quiet", "--sdist", f"--out-dir={tmp_path}"], cwd=ROOT, check=True)
    (source,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(source) as archive:
        archive.extractall(tmp_path, filter="data")
    unpacked = tmp_path / source.name.removesuffix(".tar.gz")
    here = wheel_files(ROOT, tmp_path / "from-clone", environment)
    there = wheel_files(unpacked, tmp_path / "from-source", environment)
    assert there == here
    (wheel,) = (tmp_path / "from-clone").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        assert archive.read(f"pgdyno/{third_party.NAME}").decode() == notices
    assert {f"pgdyno/report/languages/{tag}/LC_MESSAGES/pgdyno.mo" for tag in ("ja", "ko", "zh")} <= here.keys()


# ---- which machines `make dist-check` looks at ----

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
