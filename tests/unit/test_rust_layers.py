"""The files of each crate form layers: none uses a file that uses it, directly or through others."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

CRATES = Path(__file__).parents[2] / "crates"

USE = re.compile(r"^\s*(?:pub(?:\([^)]*\))? )?use ((?:crate|super)::[^;]*);", re.MULTILINE)
TESTS = re.compile(r"^#\[cfg\(test\)\]\nmod \w+ \{.*", re.MULTILINE | re.DOTALL)
Module = tuple[str, ...]


def modules(source: Path) -> dict[Module, Path]:
    """Returns the files of a crate by module, without tests and without the root, which may use all."""
    found = {}
    for path in sorted(source.rglob("*.rs")):
        parts = path.relative_to(source).with_suffix("").parts
        module = parts[:-1] if parts[-1] == "mod" else parts
        is_test = any("tests" in part for part in parts)
        if module not in (("lib",), ("main",)) and parts[0] != "bin" and not is_test:
            found[module] = path
    return found


def split(tree: str) -> Iterator[str]:
    """Yields the paths of a tree of imports: ``a::{b, c::d}`` holds ``a::b`` and ``a::c::d``."""
    prefix, brace, inner = tree.partition("{")
    if not brace:
        yield tree.strip()
        return
    depth, start = 0, 0
    inner = inner.rstrip()[:-1] + ","
    for at, letter in enumerate(inner):
        depth += {"{": 1, "}": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            if part := inner[start:at].strip():
                yield from split(prefix.strip() + part)
            start = at + 1


def target(path: str, module: Module, known: dict[Module, Path]) -> Module:
    """Returns the file that an import of ``module`` names; empty for the crate's root."""
    names = path.split("::")
    base: Module = ()
    if names[0] == "super":
        up = next(number for number, name in enumerate(names) if name != "super")
        base, names = module[:-up], names[up:]
    else:
        names = names[1:]
    for name in names:
        if (*base, name) not in known:
            break
        base = (*base, name)
    return base


def uses(known: dict[Module, Path]) -> dict[Module, set[Module]]:
    graph: dict[Module, set[Module]] = {}
    for module, path in known.items():
        text = TESTS.sub("", path.read_text())
        paths = [path for tree in USE.findall(text) for path in split(" ".join(tree.split()))]
        targets = {target(path, module, known) for path in paths}
        graph[module] = targets & known.keys() - {module}
    return graph


def cycle(graph: dict[Module, set[Module]]) -> list[str]:
    """Returns the files that remain after removing, repeatedly, those that use none of the others."""
    left = dict(graph)
    while free := {module for module, used in left.items() if not used & left.keys()}:
        left = {module: used for module, used in left.items() if module not in free}
    # in the other direction: a file that no other uses is not part of a cycle
    while free := left.keys() - {used for module in left for used in left[module]}:
        left = {module: used for module, used in left.items() if module not in free}
    return ["/".join(module) for module in left]


@pytest.mark.parametrize("crate", sorted({path.name for path in CRATES.iterdir()}))
def test_the_files_of_a_crate_stand_in_layers(crate: str) -> None:
    found = uses(modules(CRATES / crate / "src"))
    assert found
    assert cycle(found) == []


def test_a_cycle_is_found(tmp_path: Path) -> None:
    (tmp_path / "hosts").mkdir()
    for name, text in {
        "lib": "mod link;",
        "link": "use crate::{\n    hosts::{Host, list::List},\n    Error,\n};",
        "hosts": "mod list;",
        "hosts/list": "pub(crate) use super::super::session::Session;",
        "session": "#[cfg(test)]\nmod tests {\n    use crate::link;\n}",
    }.items():
        (tmp_path / f"{name}.rs").write_text(text)
    assert cycle(uses(modules(tmp_path))) == []
    (tmp_path / "session.rs").write_text("use crate::link;")
    assert cycle(uses(modules(tmp_path))) == ["hosts/list", "link", "session"]
