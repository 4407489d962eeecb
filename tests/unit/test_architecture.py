"""The rooms import only what stands before them in the way of the data."""

from __future__ import annotations

import ast
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2] / "python" / "pgdyno"

FOUNDATION = {
    "errors",
    "records",
    "units",
    "host",
    "messages",
    "mounts",
    "process_exit",
    "processors",
    "programs",
    "registry",
    "terminal",
    "console",
    "",
}
"""Modules that every room may use; "" is the package itself (its version)."""

MAY_IMPORT = {
    "errors": set(),
    "records": {"messages"},
    "units": set(),
    "host": {"records"},
    "messages": set(),
    "mounts": set(),
    "process_exit": set(),
    "processors": set(),
    "programs": set(),
    "terminal": set(),
    "console": set(),
    "registry": set(),
    "user_config": set(),
    "plan": {"plans", "published"},
    "plans": set(),
    "published": set(),
    "importers": {"store"},
    "targets": {"plan", "remote"},
    "run": {"plan"},
    "prepare": {"plan", "run", "targets"},
    "remote": {"plan"},
    "doctor": {"plan", "probe", "remote", "run", "targets"},
    "generators": {"analyse", "doctor", "plan", "remote", "run"},
    "fingerprint": {"doctor", "plan", "prepare", "run", "targets"},
    "probe": {"plan", "remote", "run"},
    "store": set(),
    "api": {"analyse", "store"},
    "analyse": {"store"},
    "audit": {"analyse", "fingerprint", "importers", "store"},
    "report": {"analyse", "audit", "fingerprint", "published", "store"},
    "live": {"analyse", "fingerprint", "report", "store"},
    "watch": {"report", "run", "targets"},
    "metrics": {"analyse", "report", "run", "store"},
}

ONLY_IN = {
    "asyncssh": "remote",
    "boto3": "targets/aws",
    "botocore": "targets/aws",
    "obstore": "store/object_storage",
    "ray": "generators",
    "typst": "report/paper",
}
"""Libraries that others see through one package of ours alone."""


@cache
def parsed(file: Path) -> tuple[ast.AST, ...]:
    """Every node of `file`."""
    return tuple(ast.walk(ast.parse(file.read_text())))


def rooms() -> list[str]:
    return sorted({path.relative_to(ROOT).parts[0].removesuffix(".py") for path in ROOT.rglob("*.py")})


def imports(room: str) -> set[str]:
    files = [ROOT / f"{room}.py"] if (ROOT / f"{room}.py").exists() else sorted((ROOT / room).rglob("*.py"))
    found: set[str] = set()
    for file in files:
        for node in parsed(file):
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


@pytest.mark.parametrize(("library", "package"), sorted(ONLY_IN.items()))
def test_a_library_for_one_purpose_is_imported_in_one_package(library: str, package: str) -> None:
    importing = {str(file.relative_to(ROOT)) for file in ROOT.rglob("*.py") if library in imported(file)}
    assert importing
    assert [file for file in importing if not file.startswith(f"{package}/")] == []


def test_nothing_but_the_registry_names_a_provider() -> None:
    naming = {str(file.relative_to(ROOT)) for file in ROOT.rglob("*.py") if "pgdyno.targets.aws" in file.read_text()}
    assert {file for file in naming if not file.startswith("targets/aws/")} == {"registry.py"}


def test_plans_name_no_kind_of_target() -> None:
    kinds = {path.name for path in (ROOT / "targets").iterdir() if (path / "schema.py").exists()}
    assert kinds >= {"embedded", "local", "build", "dsn", "aws"}
    naming = [
        f"{file.name}: {kind}"
        for file in (ROOT / "plan").rglob("*.py")
        for kind in kinds
        if f"pgdyno.targets.{kind}" in file.read_text()
    ]
    assert naming == []


def imported(file: Path) -> set[str]:
    """Top packages that `file` imports anywhere."""
    found: set[str] = set()
    for node in parsed(file):
        if isinstance(node, ast.ImportFrom):
            found.add((node.module or "").partition(".")[0])
        elif isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
    return found


def test_only_experiment_knows_all_steps() -> None:
    steps = {"plan", "targets", "prepare", "run", "store"}
    composers = [room for room in rooms() if room != "__init__" and steps <= imports(room)]
    assert composers == ["experiment"]


def test_the_composer_is_one_room_whose_modules_do_not_run_in_circles() -> None:
    folder = ROOT / "experiment"
    modules = {".".join(path.relative_to(folder).with_suffix("").parts): path for path in folder.rglob("*.py")}
    graph = {}
    for name, path in modules.items():
        found = set()
        for node in parsed(path):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("pgdyno.experiment."):
                found.add((node.module or "").removeprefix("pgdyno.experiment."))
        graph[name] = found
    TopologicalSorter(graph).prepare()


def test_every_room_is_in_the_graph() -> None:
    known = set(MAY_IMPORT) | {"__init__", "__main__", "cli", "commands", "experiment"}
    assert set(rooms()) <= known


def test_only_one_module_makes_consoles() -> None:
    # what commands print comes from outside: no other console of rich's takes it for markup or lets it steer
    makers = []
    for path in ROOT.rglob("*.py"):
        if path.name == "console.py":
            continue
        nodes = parsed(path)
        from_rich = any(isinstance(each, ast.ImportFrom) and each.module == "rich.console" for each in nodes)
        calls = [each.func for each in nodes if isinstance(each, ast.Call)]
        makes = any(isinstance(each, ast.Name) and each.id == "Console" for each in calls)
        reads = any(isinstance(each, ast.Attribute) and each.attr == "from_markup" for each in calls)
        if (from_rich and makes) or reads:
            makers.append(path.name)
    assert makers == []
