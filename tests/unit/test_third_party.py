"""Third-party notices in the wheel: all crates of the programs, all scripts of the pages, each with its text."""

import re
import subprocess
import zipfile
from pathlib import Path

import pytest

import third_party
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


@pytest.mark.long
def test_the_wheel_carries_them(notices: str, tmp_path: Path) -> None:
    uv = ROOT / ".venv" / "bin" / "uv"
    command = [str(uv), "build", "--quiet", "--wheel", f"--out-dir={tmp_path}"]
    subprocess.run(command, cwd=ROOT, env=without_compiler(tmp_path), check=True)
    [wheel] = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        assert archive.read(f"pgdyno/{third_party.NAME}").decode() == notices
        texts = {f"pgdyno/report/languages/{tag}/LC_MESSAGES/pgdyno.mo" for tag in ("ja", "ko", "zh")}
        assert texts <= set(archive.namelist())
