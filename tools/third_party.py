"""Notices of what others wrote and the wheel carries: crates in its programs.

`hatch_build.py` puts them into every wheel; `python tools/third_party.py` prints them.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROGRAMS = {"pgdrive": "pgdrive", "pgprobe": "pgdyno-probe", "pgnull": "pgdyno-nullserver"}
"""Programs that the wheel carries, and the crate of each."""

NAME = "THIRD-PARTY-NOTICES.txt"

LINKED_BY_BUILD = {"luajit-src": ["luajit2/COPYRIGHT"]}
"""Build dependencies that bring code which is linked, and its texts: all others only help the compiler."""

ZIG = "target/tools/zig"
"""Where `make` installs the package ziglang."""

LINKED_BY_ZIG = (
    ("musl", "MIT", "https://musl.libc.org", "libc/musl/COPYRIGHT"),
    ("libunwind", "Apache-2.0 WITH LLVM-exception", "https://llvm.org", "libunwind/LICENSE.TXT"),
)
"""Name, licence, source and the text's place in zig's folder of libraries."""

_BEGINNINGS = ("LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE", "UNLICENSE")
_RULE = "-" * 80


class NoticeError(Exception):
    """Something is carried whose licence's text is nowhere."""


@dataclass(frozen=True)
class Component:
    """A crate, or a library that zig links."""

    name: str
    version: str
    licence: str
    """As its author names it, most often an SPDX expression."""
    source: str
    texts: tuple[str, ...]


def notices(root: Path, target: str | None = None) -> str:
    """The whole file: every component with its licence, then each text once.

    `target` is that of programs which are linked statically by `make dist`; None is this platform. Raises NoticeError.
    """
    components = [*crates(root, target), *(linked(root) if target else [])]
    numbers: dict[str, int] = {}
    lines = [
        "pgdyno carries the following software of others: crates within pgdrive, pgprobe and",
        "pgnull. The texts of their licences follow the list.",
        "",
    ]
    for each in components:
        shown = ", ".join(str(numbers.setdefault(text, len(numbers) + 1)) for text in each.texts)
        lines += [f"{each.name} {each.version}", f"  {each.licence}; text {shown}; {each.source}"]
    for text, number in numbers.items():
        lines += ["", _RULE, f"text {number}", _RULE, "", text]
    return "\n".join(lines) + "\n"


def linked(root: Path) -> list[Component]:
    """What zig links into static programs: the C library and the unwinder. Raises NoticeError."""
    folders = list((root / ZIG).glob("lib/python3*/site-packages/ziglang"))
    if not folders:
        raise NoticeError(f"no zig in {root / ZIG}, whose libraries static programs are linked with; run make dist")
    [record] = folders[0].parent.glob("ziglang-*.dist-info")
    version = record.name.removesuffix(".dist-info").split("-")[1]
    return [
        Component(name, f"of zig {version}", licence, source, (_text(folders[0] / "lib" / text),))
        for name, licence, source, text in LINKED_BY_ZIG
    ]


def crates(root: Path, target: str | None = None) -> list[Component]:
    """Crates that the programs are compiled with for `target` or this platform, by name. Raises NoticeError."""
    target = target or _host(root)
    packages = json.loads(_cargo(root, "metadata", "--format-version=1", f"--filter-platform={target}"))["packages"]
    found = {(package["name"], package["version"]): package for package in packages if package["source"] is not None}
    # crates of ours have a path, and no source
    return [_component(found[each], packages) for each in sorted(_compiled(root, target)) if each in found]


def _compiled(root: Path, target: str) -> set[tuple[str, str]]:
    """Names and versions in the programs. `cargo metadata` has features, too, that only tests ask for."""
    programs = [f"--package={crate}" for crate in PROGRAMS.values()]
    found = set()
    for edges in ("normal", "normal,build"):
        lines = _cargo(
            root, "tree", f"--target={target}", f"--edges={edges}", "--prefix=none", "--format={p}", *programs
        ).splitlines()
        each = {(words[0], words[1].removeprefix("v")) for words in map(str.split, lines) if words}
        found |= each if edges == "normal" else {crate for crate in each if crate[0] in LINKED_BY_BUILD}
    return found


def _cargo(root: Path, command: str, *arguments: str) -> str:
    cargo = os.environ.get("CARGO", "cargo")
    done = subprocess.run(
        [cargo, command, "--locked", *arguments], cwd=root, check=True, stdout=subprocess.PIPE, text=True
    )
    return done.stdout


def _host(root: Path) -> str:
    said = subprocess.run(["rustc", "-vV"], cwd=root, check=True, stdout=subprocess.PIPE, text=True).stdout
    return next(line.removeprefix("host: ") for line in said.splitlines() if line.startswith("host: "))


def _component(package: dict[str, Any], packages: Sequence[dict[str, Any]]) -> Component:
    texts = tuple(_texts(package)) or tuple(_texts_of_siblings(package, packages))
    if not texts:
        raise NoticeError(
            f"no licence text for crate {package['name']} {package['version']} ({package['license']}): "
            "neither it nor another crate of its repository has one"
        )
    licence = package["license"] or "licence in the text"
    source = f"https://crates.io/crates/{package['name']}/{package['version']}"
    return Component(package["name"], package["version"], licence, source, texts)


def _texts(package: dict[str, Any]) -> Iterator[str]:
    folder = Path(package["manifest_path"]).parent
    named = [folder / package["license_file"]] if package["license_file"] else []
    files = [each for each in sorted(folder.iterdir()) if each.name.upper().startswith(_BEGINNINGS) and each.is_file()]
    linked = [folder / each for each in LINKED_BY_BUILD.get(package["name"], [])]
    # a name may be given twice
    for file in dict.fromkeys([*named, *files, *linked]):
        yield _text(file)


def _texts_of_siblings(package: dict[str, Any], packages: Sequence[dict[str, Any]]) -> list[str]:
    """Of another crate from the same repository, under the same licence: some publish a text with one crate only."""
    for other in packages:
        is_sibling = _repository(other) == _repository(package) and _choices(other) == _choices(package)
        if is_sibling and _repository(package) and (texts := list(_texts(other))):
            return texts
    return []


def _repository(package: dict[str, Any]) -> str:
    return (package["repository"] or "").rstrip("/").removesuffix(".git")


def _choices(package: dict[str, Any]) -> set[str]:
    """Licences of which one may be chosen, however they are joined: `MIT/Apache-2.0` is the older form."""
    return set((package["license"] or "").replace("/", " OR ").split(" OR "))


def _text(file: Path) -> str:
    lines = (line.rstrip() for line in file.read_text(encoding="utf-8", errors="replace").splitlines())
    return "\n".join(lines).strip("\n")


if __name__ == "__main__":
    sys.stdout.write(notices(Path(__file__).parents[1]))
