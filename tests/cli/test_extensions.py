"""Adds one of everything that CONTRIBUTING.md lists to a copy of pgdyno, and uses it.

Kinds of targets and providers are packages with a line in the registry, rules of the audit and plans of the catalogue
are one file, everything else is a module and one line.
"""

import json
import os
from pathlib import Path

import pytest
from pypdf import PdfReader

from tests.cli import copied_package
from tests.forked import run_pgdyno

RUN = copied_package.ROOT / "tests" / "golden" / "run-format-1"
ADDED = '''
##### targets/container/__init__.py
##### targets/container/schema.py
from collections.abc import Iterator, Mapping
from typing import ClassVar, Literal

from pgdyno.errors import Problem
from pgdyno.plan.values import Model
from pgdyno.plan.plan_document import Document
from pgdyno.plan.targets import OwnTarget, TargetSpec


class Limits(Model):
    cores: int


class ContainerTarget(OwnTarget):
    """A server in a container."""

    summary: ClassVar[str] = "in a container"

    kind: Literal["container"]
    image: str
    limits: Limits | None = None

    def programs(self) -> str:
        return f"container of {self.image}"

    def check(self, name: str, targets: Mapping[str, TargetSpec], document: Document) -> Iterator[Problem]:
        yield from super().check(name, targets, document)
        if ":" not in self.image:
            yield document.problem(("target", name, "image"), "names no tag")
##### targets/container/kind.py
from pgdyno.errors import TargetError
from pgdyno.targets.kind import OwnKind


def find(spec, home, progress):
    raise TargetError(f"nobody runs {spec.image} here")


KIND = OwnKind(find)
##### targets/rack/__init__.py
##### targets/rack/schema.py
from __future__ import annotations
from typing import ClassVar, Literal

from pgdyno.plan.targets import RentedTarget


class RackTarget(RentedTarget):
    """A server in a rack."""

    provider: ClassVar[str] = "rack"
    summary: ClassVar[str] = "rented from Rack"

    kind: Literal["rack"]
    instance: str

    def describe(self) -> str:
        return f"{self.instance} in a rack"

    def check(self, name, targets, document):
        yield from ()
##### targets/rack/provider.py
from datetime import date

from pgdyno.errors import TargetError
from pgdyno.plan.model import rented_targets
from pgdyno.targets.rented.estimate import Estimate, Item, Rate


class Rack:
    title = "Rack"

    def price(self, plan, root, hours=None):
        rate = Rate(2.5, date(2026, 11, 1))
        items = [Item(name, each.instance, 1, "hour", rate) for name, each in rented_targets(plan).items()]
        return Estimate(tuple(items), 2.0, ("power",), self.title)

    def is_standing(self, plan, root):
        return False

    def standing_rental(self, plan, root, say):
        return None

    def slower_s(self, plan):
        return 0.0

    def preflight(self, plan, root, say, lasts_s):
        raise TargetError("no rack is free")

    def policy(self):
        return {"racks": "all"}


PROVIDER = Rack()
##### workloads/ping/__init__.py
##### workloads/ping/schema.py
from __future__ import annotations
from typing import ClassVar, Literal

from pydantic import Field

from pgdyno.plan.workload_schema import Excluded, Workload


class Ping(Workload):
    """Pings."""

    kind: ClassVar[str] = "ping"
    excluded: ClassVar = (Excluded("sweep.rate", "a ping follows the one before"),)

    ping: str
    pings: int = 1
    scripts: list[str] = Field(default=["ping"])
    dataset: Literal["pongs"] = "pongs"

    def describe(self) -> str:
        return f"{self.pings} x {self.ping}"

    def engine_options(self) -> list[str]:
        return ["-b", "select-only"]
##### workloads/ping/tables.py
from pgdyno.prepare.dataset import Tables


class Pongs(Tables):
    @staticmethod
    def describe(dataset):
        return f"{dataset.scale} pongs"


TABLES = Pongs
##### workloads/ping/figures.py
from pgdyno.report.answers.workload_figures import WorkloadFigures
from pgdyno.report.table import Table


def _pings(of):
    return Table("Pings by trial", ("trial",), tuple((str(trial.number),) for trial in of.run.trials))


FIGURES = WorkloadFigures(_pings, lambda: "All pings")
##### audit/rules/odd_name.py
from pgdyno.audit.finding import MissingError, Rule, RuleFinding, Severity
from pgdyno.messages import Message


def _check(subject):
    if not subject.manifest.workload:
        raise MissingError(Message("no-workload", "the workload is unknown"))
    name = Message("named", "the workload is called {name}", name=subject.manifest.workload)
    yield RuleFinding(Severity.CAUTION, Message("odd-name", "odd: {what}", what=name), [1])


RULE = Rule("odd-name", "the name of the workload", Severity.CAUTION, "nowhere", _check)
##### report/sections/odd_names.py
from pgdyno.report.charts.bars_of_names import names_figure
from pgdyno.report.sections.section_blocks import Folded
from pgdyno.report.sections.draft import Section
from pgdyno.report.table import Table


def _blocks(draft):
    rows = tuple((target.name, target.kind) for target in draft.of.manifest.targets)
    table = Table("Targets by name", ("name", "kind"), rows)
    return ["Every target once.", names_figure([name for name, _ in rows]), Folded("Their kinds", [table])]


SECTION = Section("names", "Names of targets", _blocks, "Names")
##### report/charts/bars_of_names.py
from pgdyno.report.charts.page_figures import drawn_figure
from pgdyno.report.charts.svg import Drawing, line


def names_figure(names):
    title = "The longest name has few letters"

    def drawn(layout):
        drawing = Drawing(layout.width, 20.0 * len(names), title, "A bar for each name.")
        for at, name in enumerate(names):
            drawing.add(line(0, 20 * at + 10, 5 * len(name), 20 * at + 10, "axis"))
        return drawing

    return drawn_figure("names", title, drawn)
##### importers/oha.py
import re

from pgdyno.importers.parsed import Output, OutputParser

_RATE = re.compile(r"Requests/sec:\\s*(?P<tps>[\\d.]+)")


class OhaParser(OutputParser):
    def read(self, text, line):
        match = _RATE.search(text)
        if match is None:
            return False
        output = Output("oha", line, line)
        output.put("tps", float(match["tps"]), line, text)
        self.found.append(output)
        return True
##### experiment/search/fewest_search.py
from pgdyno.experiment.search.search_arm import Arm
from pgdyno.messages import Message


class FewestSearch(Arm):
    def next(self, own):
        return self.record(len(own), self.lowest.clients, [Message("search-fewest", "the fewest clients are few")])
'''
"""Modules, each after its path."""
LINE = '    "container": Kind("pgdyno.targets.container.schema:ContainerTarget", "here"),\n'
RACK_LINE = '    "rack": Kind("pgdyno.targets.rack.schema:RackTarget", "rented"),\n'
SEARCH_LINE = (
    '    "fewest": Search("pgdyno.experiment.search.fewest_search:FewestSearch", "clients", "the fewest clients"),\n'
)
PROVIDER_LINE = ', "rack": "pgdyno.targets.rack.provider"}'
WORKLOAD_LINE = '    "ping": WorkloadKind("pgdyno.workloads.ping.schema:Ping", {"ping": None}, "pongs"),\n'
ONE_LINES = {
    "report/sections/section_list.py": [
        ("    likeness,\n", "    likeness,\n    odd_names,\n"),
        ("    cost.SECTION,\n", "    cost.SECTION,\n    odd_names.SECTION,\n"),
    ],
    "importers/formats.py": [
        ("import SysbenchParser\n", "import SysbenchParser\nfrom pgdyno.importers.oha import OhaParser\n"),
        ("HammerdbParser, BenchbaseParser)", "HammerdbParser, BenchbaseParser, OhaParser)"),
    ],
    "registry.py": [
        ('    "dsn": Kind(', f'{LINE}{RACK_LINE}    "dsn": Kind('),
        ('"pgdyno.targets.pool.provider"}', f'"pgdyno.targets.pool.provider"{PROVIDER_LINE}'),
        ("SEARCHES = {\n", f"SEARCHES = {{\n{SEARCH_LINE}"),
        ('    "lua": WorkloadKind(', f'{WORKLOAD_LINE}    "lua": WorkloadKind('),
    ],
}
"""Lines of files that are there already."""
PLAN = """
name = "boxed"
[target.box]
kind = "container"
image = "postgres:18"
[workload]
scripts = ["select-only"]
[sweep]
clients = 1
[trial]
duration = "1s"
"""
CATALOGUE_PLAN = PLAN.replace('kind = "container"\nimage = "postgres:18"', 'kind = "embedded"\nversion = "18"')


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package, the kind and the provider, for PYTHONPATH."""
    folder = tmp_path_factory.mktemp("added") / "python"
    package = copied_package.copy_package(folder)
    modules = [each.partition("\n") for each in ADDED.split("##### ")[1:]]
    for path, _, text in [*modules, ("plans/odd.toml", "", CATALOGUE_PLAN)]:
        (package / path).parent.mkdir(exist_ok=True)
        (package / path).write_text(text)
    for path, changes in ONE_LINES.items():
        text = (package / path).read_text()
        for before, after in changes:
            assert text.count(before) == 1
            text = text.replace(before, after)
        (package / path).write_text(text)
    return folder


def pgdyno(copied: Path, home: Path, *words: str, plan: str = PLAN, code: int = 0) -> str:
    file = home / "boxed.toml"
    file.write_text(plan)
    written = [each.replace("PLAN", str(file)) for each in words]
    env = os.environ | {"PYTHONPATH": str(copied), "PGDYNO_HOME": str(home)}
    done = run_pgdyno(written, cwd=home, env=env)
    assert done.returncode == code, done.stdout + done.stderr
    return " ".join((done.stdout + done.stderr).split())


@pytest.fixture(scope="module")
def page(copied: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report, and next to it the same as PDF."""
    folder = tmp_path_factory.mktemp("report")
    page = folder / "report.html"
    pgdyno(copied, folder, "report", str(RUN), "--html", str(page), "--pdf", str(folder / "report.pdf"))
    return page


def test_a_kind_of_target_is_its_package_and_a_line(copied: Path, tmp_path: Path) -> None:
    assert "the plan is valid" in pgdyno(copied, tmp_path, "plan", "check", "PLAN")
    assert "target box: container of postgres:18" in pgdyno(copied, tmp_path, "plan", "show", "PLAN")
    assert '"ContainerTarget"' in pgdyno(copied, tmp_path, "plan", "schema")
    for was, instead, message in (
        ("postgres:18", "postgres", "boxed.toml:5: target.box.image: names no tag"),
        ("image =", "picture =", "target.box.picture: unknown key"),
        ('"postgres:18"', '"a:b"\nlimits = { core = 2 }', "target.box.limits.core: unknown key did you mean cores?"),
        ('"container"', '"contaner"', 'did you mean "container"?'),
        ('kind = "container"\n', "", '"build" (from a source tree), "container" (in a container), '),
    ):
        mistaken = PLAN.replace(was, instead)
        assert message in pgdyno(copied, tmp_path, "plan", "check", "PLAN", plan=mistaken, code=3)
    said = pgdyno(copied, tmp_path, "run", "PLAN", "--no-preflight", code=4)
    assert "target box: nobody runs postgres:18 here" in said


def test_a_provider_is_asked_for_prices_servers_and_its_policy(copied: Path, tmp_path: Path) -> None:
    plan = PLAN.replace('"container"', '"rack"').replace('image = "postgres:18"', 'instance = "2U"')
    said = pgdyno(copied, tmp_path, "plan", "cost", "PLAN", plan=plan)
    assert "about 5.00 USD for 2 h, 2.5000 an hour" in said
    assert "those of Rack's price list on 2026-11-01 without power" in said
    assert "--yes" in pgdyno(copied, tmp_path, "run", "PLAN", "--no-preflight", plan=plan, code=2)
    for words in (("run", "PLAN", "--no-preflight", "--yes"), ("target", "up", "PLAN", "--yes")):
        assert "no rack is free" in pgdyno(copied, tmp_path, *words, plan=plan, code=4)
    assert '"racks": "all"' in pgdyno(copied, tmp_path, "target", "policy")


def test_a_rule_of_the_audit_is_its_module(copied: Path, page: Path, tmp_path: Path) -> None:
    found = {each["rule"]: each for each in json.loads(pgdyno(copied, tmp_path, "audit", str(RUN), "--json"))}
    odd = found["odd-name"]
    assert (odd["id"], odd["severity"], odd["trials"]) == ("odd-name", "caution", [1])
    assert odd["parameters"]["what_id"] == "named"
    assert odd["message"] == f"odd: the workload is called {odd['parameters']['name']}"
    assert "odd: the workload is called" in page.read_text().lower()


def test_a_section_is_its_module_and_a_line_and_so_is_a_chart(page: Path) -> None:
    for part in (
        '<h2 id="names">Names of targets</h2>',
        '<a href="#names">Names</a>',
        "<p>Every target once.</p>",
        "The longest name has few letters",
        "<summary>Their kinds</summary>",
    ):
        assert part in page.read_text()
    text = " ".join(each.extract_text() for each in PdfReader(page.with_suffix(".pdf")).pages)
    assert "Names of targets" in text
    assert "Targets by name" in text


def test_a_format_to_import_is_its_module_and_a_line(copied: Path, tmp_path: Path) -> None:
    (tmp_path / "out.txt").write_text("Summary:\n  Requests/sec: 1234.5\n")
    pgdyno(copied, tmp_path, "import", str(tmp_path / "out.txt"), "--into", str(tmp_path / "runs"))
    (run,) = (tmp_path / "runs").iterdir()
    assert "1,23" in pgdyno(copied, tmp_path, "show", str(run))


def test_a_plan_of_the_catalogue_is_its_file_and_a_search_its_module_and_a_line(copied: Path, tmp_path: Path) -> None:
    assert "the plan is valid" in pgdyno(copied, tmp_path, "plan", "check", "odd")
    plan = CATALOGUE_PLAN.replace("clients = 1", "clients = [1, 8]") + 'repeats = 2\n[search]\nfind = "fewest"\n'
    said = pgdyno(copied, tmp_path, "plan", "show", "PLAN", plan=plan)
    assert "searches for the fewest clients from 1 to 8 clients" in said
    asked = """
from pathlib import Path
from pgdyno.experiment.search.search_arm import arms_of
from pgdyno.plan import load_plan
from pgdyno.prepare import Dataset
(arm,) = arms_of(load_plan(Path("boxed.toml")).plan)
print(arm.ask([]).words)
print(Dataset('pongs', 7), Dataset('pongs', 2).pgbench_scale)
"""
    # and the dataset of a kind of workload
    assert copied_package.python(copied, "-c", asked, cwd=tmp_path) == "the fewest clients are few\n7 pongs 2.0\n"


def test_a_kind_of_workload_is_its_package_and_a_line(copied: Path, page: Path, tmp_path: Path) -> None:
    plan = CATALOGUE_PLAN.replace('scripts = ["select-only"]', 'ping = "pong"\npings = 3')
    assert "workload: 3 x pong" in pgdyno(copied, tmp_path, "plan", "show", "PLAN", plan=plan)
    assert '"Ping"' in pgdyno(copied, tmp_path, "plan", "schema")
    for was, instead, message in (
        (
            "\n[sweep]",
            "\n[sweep]\nrate = 5",
            "sweep.rate: cannot be combined with workload.ping: a ping follows the one before",
        ),
        ("\n[sweep]", '\nlua = "a.lua"\n[sweep]', "workload.lua: unknown key lua belongs to lua or name"),
        ("\n[sweep]", "\npigns = 2\n[sweep]", "workload.pigns: unknown key did you mean pings?"),
        ('ping = "pong"', 'scripts = ["select-only"]', "workload.pings: unknown key pings belongs to ping"),
    ):
        mistaken = plan.replace(was, instead)
        assert message in pgdyno(copied, tmp_path, "plan", "check", "PLAN", plan=mistaken, code=3)
    assert "All pings" in page.read_text()
