"""The rooms import only what stands before them in the way of the data."""

from __future__ import annotations

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2] / "python" / "pgdyno"

FOUNDATION = {"errors", "records", "units", "host", "mounts", "programs", ""}
"""Modules that every room may use; "" is the package itself (its version)."""

MAY_IMPORT = {
    "errors": set(),
    "records": set(),
    "units": set(),
    "host": {"records"},
    "mounts": set(),
    "programs": set(),
    "plan": {"plans", "published"},
    "plans": set(),
    "published": set(),
    "importers": {"store"},
    "target": {"plan", "remote"},
    "run": {"plan"},
    "prepare": {"plan", "run", "target"},
    "remote": {"plan"},
    "doctor": {"plan", "probe", "remote", "run", "target"},
    "cluster": {"analyse", "doctor", "plan", "remote", "run"},
    "fingerprint": {"doctor", "plan", "prepare", "run", "target"},
    "probe": {"plan", "remote", "run"},
    "store": set(),
    "analyse": {"store"},
    "audit": {"analyse", "fingerprint", "importers", "store"},
    "report": {"analyse", "audit", "fingerprint", "published", "store"},
    "live": {"analyse", "fingerprint", "report", "store"},
    "watch": {"report", "run"},
    "metrics": {"analyse", "report", "run", "store"},
}


def rooms() -> list[str]:
    return sorted({path.relative_to(ROOT).parts[0].removesuffix(".py") for path in ROOT.rglob("*.py")})


def imports(room: str) -> set[str]:
    files = [ROOT / f"{room}.py"] if (ROOT / f"{room}.py").exists() else sorted((ROOT / room).rglob("*.py"))
    found: set[str] = set()
    for file in files:
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{file} has a relative import"
                if node.module == "pgdyno":
                    # `from pgdyno import x` means a room only when x is one
                    found |= {alias.name if (ROOT / alias.name).exists() else "" for alias in node.names}
                elif (node.module or "").startswith("pgdyno."):
                    found.add((node.module or "").split(".")[1])
            elif isinstance(node, ast.Import):
                found |= {alias.name.split(".")[1] for alias in node.names if alias.name.startswith("pgdyno.")}
    return found - {room}


@pytest.mark.parametrize("room", sorted(MAY_IMPORT))
def test_a_room_imports_only_what_stands_before_it(room: str) -> None:
    allowed = MAY_IMPORT[room] if room in ("errors", "records", "units") else MAY_IMPORT[room] | FOUNDATION
    assert imports(room) <= allowed


def test_only_experiment_knows_all_steps() -> None:
    steps = {"plan", "target", "prepare", "run", "store"}
    composers = [room for room in rooms() if room != "__init__" and steps <= imports(room)]
    assert composers == ["experiment"]


def test_the_composer_is_one_room_whose_modules_do_not_run_in_circles() -> None:
    modules = {path.stem: path for path in (ROOT / "experiment").glob("*.py") if path.stem != "__init__"}
    graph = {}
    for name, path in modules.items():
        found = set()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("pgdyno.experiment."):
                found.add((node.module or "").split(".")[2])
        graph[name] = found
    TopologicalSorter(graph).prepare()


def test_every_room_is_in_the_graph() -> None:
    known = set(MAY_IMPORT) | {"__init__", "cli", "commands", "experiment"}
    assert set(rooms()) <= known
