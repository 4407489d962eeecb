"""The packages of pgdyno: which imports which, how many modules each has, how these are named, and assertions."""

import ast
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2] / "python" / "pgdyno"

FOUNDATION = {
    "effect", "errors", "records", "units", "host", "messages", "mounts", "processors", "signals_and_exit",
    "programs", "registry", "safe_output", "console", "",
}  # fmt: skip
"""Modules that every package may import; "" is pgdyno itself (its version)."""

MAY_IMPORT = {
    "errors": {"messages"},
    "records": {"effect", "errors", "messages", "registry", "units"},
    "units": {"errors"},
    "host": {"records"},
    "plan": {"plans", "published"},
    "importers": {"store"},
    "targets": {"plan", "remote"},
    "run": {"plan"},
    "instructions": {"targets"},
    "prepare": {"plan", "run", "targets"},
    "remote": {"plan"},
    "doctor": {"plan", "probe", "remote", "run", "targets"},
    "generators": {"analyse", "doctor", "plan", "remote", "run"},
    "fingerprint": {"doctor", "plan", "prepare", "remote", "run", "targets"},
    "probe": {"plan", "remote", "run"},
    "api": {"analyse", "report", "store", "user_config"},
    "analyse": {"store"},
    "audit": {"analyse", "fingerprint", "importers", "store"},
    "report": {"analyse", "audit", "fingerprint", "published", "store"},
    "live": {"analyse", "fingerprint", "publish", "report", "store"},
    "publish": {"analyse", "fingerprint", "report", "store"},
    "watch": {"report", "run", "targets"},
    "metrics": {"analyse", "report", "run", "store"},
    "capture": {"plan", "remote", "store", "targets"},
    "synthesise": {"capture", "plan", "store"},
    "bisection": {"plan", "store", "targets"},
    "workloads": {"analyse", "plan", "prepare", "report", "run", "targets"},
}
"""Further packages that a package may import."""
COMPOSERS = {"__init__", "__main__", "cli", "commands", "experiment"}

ONLY_IN = {
    "asyncssh": "remote",
    "boto3": "targets/aws",
    "botocore": "targets/aws",
    "obstore": "store/object_storage",
    "optuna": "experiment/search/settings",
    "pglast": "capture",
}
"""Libraries that one package alone imports."""


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the statements in `node` at any depth, without the expressions in them."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt | ast.excepthandler | ast.match_case):
            yield child
            yield from statements(child)


@cache
def import_nodes(file: Path) -> tuple[ast.Import | ast.ImportFrom, ...]:
    """The imports anywhere in `file`; all nodes of all files would take 300 MB."""
    found = statements(ast.parse(file.read_text()))
    return tuple(node for node in found if isinstance(node, ast.Import | ast.ImportFrom))


def packages() -> list[str]:
    return sorted({path.relative_to(ROOT).parts[0].removesuffix(".py") for path in ROOT.rglob("*.py")})


def is_module(name: str) -> bool:
    return (ROOT / name).is_dir() or (ROOT / f"{name}.py").exists()


def imports(package: str) -> set[str]:
    files = [ROOT / f"{package}.py"] if (ROOT / f"{package}.py").exists() else sorted((ROOT / package).rglob("*.py"))
    found: set[str] = set()
    for file in files:
        for node in import_nodes(file):
            if isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{file} has a relative import"
                if node.module == "pgdyno":
                    # `from pgdyno import x`: x is a module, or a name of the package itself
                    found |= {alias.name if is_module(alias.name) else "" for alias in node.names}
                elif (node.module or "").startswith("pgdyno."):
                    found.add((node.module or "").split(".")[1])
            elif isinstance(node, ast.Import):
                found |= {alias.name.split(".")[1] for alias in node.names if alias.name.startswith("pgdyno.")}
    return found - {package}


def test_a_package_imports_only_earlier_steps() -> None:
    for package in set(packages()) - COMPOSERS:
        allowed = MAY_IMPORT.get(package, set()) | (set() if package in ("errors", "records", "units") else FOUNDATION)
        assert imports(package) <= allowed, package


@pytest.mark.parametrize(("library", "package"), sorted(ONLY_IN.items()))
def test_one_package_alone_imports_each_of_these_libraries(library: str, package: str) -> None:
    importing = {str(file.relative_to(ROOT)) for file in ROOT.rglob("*.py") if library in imported(file)}
    assert importing
    assert [file for file in importing if not file.startswith(f"{package}/")] == []


def test_nothing_but_the_registry_names_a_provider_or_a_kind_of_workload() -> None:
    for module, folder in (("pgdyno.targets.aws", "targets/aws/"), ("pgdyno.workloads.", "workloads/")):
        naming = {str(file.relative_to(ROOT)) for file in ROOT.rglob("*.py") if module in file.read_text()}
        assert {file for file in naming if not file.startswith(folder)} == {"registry.py"}


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
    found: set[str] = set()
    for node in import_nodes(file):
        if isinstance(node, ast.ImportFrom):
            found.add((node.module or "").partition(".")[0])
        elif isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
    return found


def test_only_experiment_imports_all_steps() -> None:
    steps = {"plan", "targets", "prepare", "run", "store"}
    composers = [each for each in packages() if each != "__init__" and steps <= imports(each)]
    assert composers == ["experiment"]


FLOORS = {
    # values, then the model, then reading, then checks, then output
    "plan": (
        ("values", "plan_document", "plan_text", "known_settings", "own_data"),
        ("sweeps", "hosts", "optional_sections", "targets", "workload_schema", "kinds"),
        ("scenario.steps",),
        ("scenario.groups",),
        ("model",),
        ("reading",),
        ("workload", "scenario", "trials"),
        ("checks",),
        ("time_budget",),
        ("loaded_plan", "ab_plan"),
        ("impact_plan",),
        ("output", ""),
    ),
    # texts and tables, then drawing, then what a run answers, then figures, then sections of them, then documents
    "report": (
        ("translation", "plan_toml", "run_events"),
        ("terminal.text_drawing", "terminal.summary_file", "terminal.forest_plot"),
        ("numbers", "table"),
        (*(f"charts.{name}" for name in ("svg", "palette", "layout", "labels", "scaling", "latency")),),
        ("report_content", "several_runs", "terminal.scaling_chart"),
        ("answers.workload_figures",),
        ("report_tables", "sentences", "run_notes", "sections.over_seconds"),
        ("answers", "costs"),
        ("charts",),
        ("sections.section_blocks", "sections.key_figures", "sections.environment"),
        ("sections.figures",),
        ("sections.draft",),
        ("sections",),
        ("terminal.block_lines",),
        ("analysis",),
        ("sections.every_point",),
        ("sections.section_list",),
        ("terminal", "export", "html"),
        ("full_report", ""),
    ),
    # what plans say of each kind, then sessions, then clusters, then a server, then how each kind obtains one
    "targets": (
        (
            "aws.volumes",
            "aws.databases.parameter_rules",
            "aws.databases.standard_support",
            "aws.schema",
            "rented.packaged_server",
        ),
        (*(f"{kind}.schema" for kind in ("embedded", "local", "build", "dsn", "pool", "aws.databases", "aws.hosts")),),
        ("rented.estimate", "http_requests", "response_limits", "server_identity", "server_user"),
        ("direct_session", "connection", "home"),
        ("poolers.load_path", "poolers.program"),
        ("lock", "rented"),
        ("cluster",),
        ("poolers", "cluster.instance"),
        ("server",),
        ("followers", "cluster.reconfigure", "dsn.reach", "operations", "round_trip"),
        ("event_actions",),
        ("build.source_tree", "build.cached_build", "build.extensions"),
        ("kind",),
        ("embedded", "local", "build", "dsn", "pool"),
        ("aws.boto3_clients", "aws.s3"),
        ("aws.inventory", "aws.location", "aws.policy"),
        ("aws.maker",),
        ("aws.network",),
        ("aws.databases",),
        ("aws.hosts",),
        ("aws.observe", "aws.preflight", "aws.pricing", "aws.removal"),
        ("aws.rental",),
        ("aws.selftest",),
        ("aws.provider", "aws", ""),
    ),
}
"""Modules and folders within packages, from the bottom: each imports those of its own floor and below. What a folder
has on another floor is listed by itself.
"""


def modules_of(package: str) -> dict[str, Path]:
    folder = ROOT / package
    names = {path: path.relative_to(folder).with_suffix("").parts for path in folder.rglob("*.py")}
    return {".".join(parts).removesuffix("__init__").removesuffix("."): path for path, parts in names.items()}


def imports_within(package: str) -> dict[str, set[str]]:
    """The modules of `package` that each of its modules imports, also within functions and for types alone."""
    modules = modules_of(package)
    graph: dict[str, set[str]] = {name: set() for name in modules}
    for name, path in modules.items():
        for node in import_nodes(path):
            if isinstance(node, ast.ImportFrom) and f"{node.module}.".startswith(f"pgdyno.{package}."):
                module = (node.module or "").removeprefix(f"pgdyno.{package}").removeprefix(".")
                below = (f"{module}.{alias.name}".removeprefix(".") for alias in node.names)
                graph[name] |= {each if each in modules else module for each in below} - {name}
    return graph


@pytest.mark.parametrize("package", ["experiment", "generators", *FLOORS])
def test_the_modules_of_a_package_import_each_other_without_cycles(package: str) -> None:
    TopologicalSorter(imports_within(package)).prepare()


def floor_of(module: str, floors: Mapping[str, int]) -> int:
    """The floor of `module`, or of the innermost folder around it that is listed."""
    parts = module.split(".")
    while ".".join(parts) not in floors:
        parts.pop()
        assert parts, f"{module} is on no floor"
    return floors[".".join(parts)]


@pytest.mark.parametrize("package", sorted(FLOORS))
def test_no_module_imports_one_of_a_higher_floor(package: str) -> None:
    floors = {name: number for number, names in enumerate(FLOORS[package]) for name in names}
    graph = imports_within(package)
    assert floors.keys() <= graph.keys()
    floor = {name: floor_of(name, floors) for name in graph}
    assert [f"{name} imports {each}" for name in graph for each in graph[name] if floor[each] > floor[name]] == []


def test_only_one_module_creates_consoles() -> None:
    # commands print text from outside, which other consoles of rich would interpret as markup or control sequences
    makers = []
    for path in ROOT.rglob("*.py"):
        source = path.read_text()
        if path.name == "console.py" or not re.search(r"rich\.console|from_markup", source):
            continue
        calls = [each.func for each in ast.walk(ast.parse(source)) if isinstance(each, ast.Call)]
        imports_from = {each.module for each in import_nodes(path) if isinstance(each, ast.ImportFrom)}
        from_rich = "rich.console" in imports_from
        makes = any(isinstance(each, ast.Name) and each.id == "Console" for each in calls)
        reads = any(isinstance(each, ast.Attribute) and each.attr == "from_markup" for each in calls)
        if (from_rich and makes) or reads:
            makers.append(path.name)
    assert makers == []


def test_only_one_module_names_files_to_duckdb() -> None:
    # DuckDB takes a path for a pattern, and its folders for columns, unless the SQL prevents both
    reads = re.compile(r"\b(?:read_(?:parquet|csv|csv_auto|json|json_auto|ndjson)|parquet_scan|from_parquet)\(")
    naming = {str(file.relative_to(ROOT)) for file in ROOT.rglob("*.py") if reads.search(file.read_text())}
    assert naming == {"store/duckdb_session.py"}


MOST_MODULES = 15
ONE_EACH = ("audit/rules",)
"""Folders with a module per rule, which registers itself: their number grows, and each is found by its name."""

SAME_SUBJECT = {
    "capture", "cloud_metrics", "comparison", "counting", "dips", "endurance", "figures", "groups", "history", "impact",
    "kind", "latency", "likeness", "machine", "price", "provider", "query_results", "rental", "reset", "scaling",
    "schema", "scripts", "searches", "selftest", "tables", "targets", "timeline", "validity",
}  # fmt: skip
"""Names of modules that stand in several packages, each for the same subject."""


def test_folders_are_small() -> None:
    many = {}
    for folder in (ROOT, *(path for path in ROOT.rglob("*") if path.is_dir())):
        modules = [path for path in folder.glob("*.py") if path.name != "__init__.py"]
        if len(modules) > MOST_MODULES and str(folder.relative_to(ROOT)) not in ONE_EACH:
            many[str(folder.relative_to(ROOT))] = len(modules)
    # else: move what belongs together into a folder of its own, or merge tiny modules
    assert many == {}


@pytest.mark.parametrize("folder", ONE_EACH)
def test_every_module_of_a_large_folder_is_a_rule_with_the_id_of_its_name(folder: str) -> None:
    for file in (ROOT / folder).glob("*.py"):
        ids = re.findall(r'^RULE = Rule\(\s*"([^"]+)"', file.read_text(), re.MULTILINE)
        assert ids == ([] if file.name == "__init__.py" else [file.stem.replace("_", "-")]), file.name


def test_a_name_stands_for_one_subject() -> None:
    # a rule of the audit is named after its ID
    files = [path for path in ROOT.rglob("*.py") if path.parent != ROOT / "audit" / "rules"]
    names = Counter(path.stem for path in files)
    repeated = {name for name, times in names.items() if times > 1 and name != "__init__"}
    assert repeated == SAME_SUBJECT


# ---- `python -O` removes assertions: no assertion in pgdyno does any work ----

PURE = {"isinstance", "callable", "len", "all", "any", "issubclass"}
WORK = (ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom)


def working(source: str) -> Iterator[int]:
    """Lines of assertions that call, bind or wait for something, and of `__debug__`."""
    if "assert" not in source and "__debug__" not in source:
        return
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Name) and node.id == "__debug__":
            yield node.lineno
        if not isinstance(node, ast.Assert):
            continue
        for part in ast.walk(node.test):
            called = part.func if isinstance(part, ast.Call) else None
            is_pure = called is None or (isinstance(called, ast.Name) and called.id in PURE)
            if not is_pure or isinstance(part, WORK):
                yield node.lineno


@pytest.mark.slow
def test_assertions_that_do_work_are_found() -> None:
    for source, lines in (
        ("assert x is not None\nassert isinstance(x, int)\nassert a.b == 2", []),
        ("assert total.add(x)", [1]),
        ("x = 1\nassert (y := x)", [2]),
        ("if __debug__: pass", [1]),
    ):
        assert list(working(source)) == lines


@pytest.mark.slow
def test_no_assertion_does_any_work() -> None:
    found = [f"{path.relative_to(ROOT)}:{line}" for path in ROOT.rglob("*.py") for line in working(path.read_text())]
    assert found == []
