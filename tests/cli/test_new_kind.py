"""A kind of target or a provider is a package and a line in the registry, an audit rule a module: a copy gets all."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli import copied_package

RUN = copied_package.ROOT / "tests" / "golden" / "run-format-1"
SCHEMA = '''
"""What a plan says of a container."""
from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar, Literal

from pgdyno.errors import Problem
from pgdyno.plan.values import Model
from pgdyno.plan.reading.plan_document import Document
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
'''
KIND = '''
"""How containers are obtained."""
from pgdyno.errors import TargetError
from pgdyno.targets.kind import OwnKind


def find(spec, home, progress):
    raise TargetError(f"nobody runs {spec.image} here")


KIND = OwnKind(find)
'''
RENTED = '''
"""What a plan says of a server in a rack that is rented."""
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
'''
PROVIDER = '''
"""Racks as servers."""
from datetime import date

from pgdyno.errors import TargetError
from pgdyno.plan.targets import rented_targets
from pgdyno.targets.estimate import Estimate, Item, Rate


class Rack:
    title = "Rack"

    def price(self, plan, root, hours=None):
        rate = Rate(2.5, date(2026, 11, 1))
        items = [Item(name, each.instance, 1, "hour", rate) for name, each in rented_targets(plan).items()]
        return Estimate(tuple(items), 2.0, ("power",), self.title)

    def is_standing(self, plan, root):
        return False

    def standing(self, plan, root, say):
        return None

    def preflight(self, plan, root, say, lasts_s):
        raise TargetError("no rack is free")

    def policy(self):
        return {"racks": "all"}


PROVIDER = Rack()
'''
RULE = '''
"""Runs of which the name of the workload has no vowel."""
from pgdyno.audit.finding import MissingError, Rule, Said, Severity
from pgdyno.messages import Message


def _check(subject):
    if not subject.manifest.workload:
        raise MissingError(Message("no-workload", "the workload is unknown"))
    name = Message("named", "the workload is called {name}", name=subject.manifest.workload)
    yield Said(Severity.CAUTION, Message("odd-name", "odd: {what}", what=name), [1])


RULE = Rule("odd-name", "the name of the workload", Severity.CAUTION, "nowhere", _check)
'''
LINE = '    "container": Kind("pgdyno.targets.container.schema:ContainerTarget", "here"),\n'
RACK_LINE = '    "rack": Kind("pgdyno.targets.rack.schema:RackTarget", "rented"),\n'
PROVIDER_LINE = ', "rack": "pgdyno.targets.rack.provider"}'
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


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package, the kind and the provider, for PYTHONPATH."""
    folder = tmp_path_factory.mktemp("added") / "python"
    package = copied_package.copy_package(folder)
    files = {
        "container": {"__init__": "", "schema": SCHEMA, "kind": KIND},
        "rack": {"__init__": "", "schema": RENTED, "provider": PROVIDER},
    }
    for name, modules in files.items():
        (package / "targets" / name).mkdir()
        for module, text in modules.items():
            (package / "targets" / name / f"{module}.py").write_text(text)
    (package / "audit" / "rules" / "odd_name.py").write_text(RULE)
    registry = package / "registry.py"
    before, line, after = registry.read_text().partition('    "dsn": Kind(')
    text = f"{before}{LINE}{RACK_LINE}{line}{after}"
    registry.write_text(text.replace('"pgdyno.targets.aws.provider"}', f'"pgdyno.targets.aws.provider"{PROVIDER_LINE}'))
    return folder


def pgdyno(copied: Path, home: Path, *words: str, plan: str = PLAN, code: int = 0) -> str:
    """What a command of the copy says of `plan`, on one line."""
    file = home / "boxed.toml"
    file.write_text(plan)
    written = [each.replace("PLAN", str(file)) for each in words]
    return " ".join(copied_package.pgdyno(copied, *written, code=code, cwd=home, PGDYNO_HOME=str(home)).split())


def test_a_plan_with_it_is_checked_and_described(copied: Path, tmp_path: Path) -> None:
    assert "the plan is valid" in pgdyno(copied, tmp_path, "plan", "check", "PLAN")
    assert "target box: container of postgres:18" in pgdyno(copied, tmp_path, "plan", "show", "PLAN")
    assert '"ContainerTarget"' in pgdyno(copied, tmp_path, "plan", "schema")


@pytest.mark.parametrize(
    ("was", "instead", "message"),
    [
        ("postgres:18", "postgres", "boxed.toml:5: target.box.image: names no tag"),
        ("image =", "picture =", "target.box.picture: unknown key"),
        (
            '"postgres:18"',
            '"a:b"\nlimits = { core = 2 }',
            "target.box.limits.core: unknown key did you mean cores?",
        ),
        ('"container"', '"contaner"', 'did you mean "container"?'),
        ('kind = "container"\n', "", '"build" (from a source tree), "container" (in a container), '),
    ],
)
def test_mistakes_in_it_are_found(copied: Path, tmp_path: Path, was: str, instead: str, message: str) -> None:
    assert message in pgdyno(copied, tmp_path, "plan", "check", "PLAN", plan=PLAN.replace(was, instead), code=3)


def test_a_run_asks_it_for_programs(copied: Path, tmp_path: Path) -> None:
    said = pgdyno(copied, tmp_path, "run", "PLAN", "--no-preflight", code=4)
    assert "target box: nobody runs postgres:18 here" in said


def test_a_provider_is_asked_for_prices_servers_and_its_policy(copied: Path, tmp_path: Path) -> None:
    plan = PLAN.replace('"container"', '"rack"').replace('image = "postgres:18"', 'instance = "2U"')
    said = pgdyno(copied, tmp_path, "plan", "cost", "PLAN", plan=plan)
    assert "about 5.00 USD for 2h00m, 2.5000 an hour" in said
    assert "those of Rack's price list on 2026-11-01 without power" in said
    assert "--yes" in pgdyno(copied, tmp_path, "run", "PLAN", "--no-preflight", plan=plan, code=2)
    for words in (("run", "PLAN", "--no-preflight", "--yes"), ("target", "up", "PLAN", "--yes")):
        assert "no rack is free" in pgdyno(copied, tmp_path, *words, plan=plan, code=4)
    assert '"racks": "all"' in pgdyno(copied, tmp_path, "target", "policy")


def test_a_rule_of_the_audit_is_its_module(copied: Path, tmp_path: Path) -> None:
    found = {each["rule"]: each for each in json.loads(pgdyno(copied, tmp_path, "audit", str(RUN), "--json"))}
    odd = found["odd-name"]
    assert (odd["id"], odd["severity"], odd["trials"]) == ("odd-name", "caution", [1])
    assert odd["parameters"]["what_id"] == "named"
    assert odd["message"] == f"odd: the workload is called {odd['parameters']['name']}"
    pgdyno(copied, tmp_path, "report", str(RUN), "--html", str(tmp_path / "report.html"))
    assert "odd: the workload is called" in (tmp_path / "report.html").read_text().lower()


def test_nothing_else_of_the_package_has_changed(copied: Path) -> None:
    original = copied_package.ROOT / "python" / "pgdyno"
    texts = [
        {each.relative_to(folder): each.read_text() for each in folder.rglob("*.py")}
        for folder in (original, copied / "pgdyno")
    ]
    changed = {str(path) for path, text in texts[1].items() if texts[0].get(path) != text}
    kinds = {f"targets/{name}/__init__.py" for name in ("container", "rack")}
    kinds |= {f"targets/{name}/schema.py" for name in ("container", "rack")}
    assert changed == {
        *kinds,
        "targets/container/kind.py",
        "targets/rack/provider.py",
        "audit/rules/odd_name.py",
        "registry.py",
    }
