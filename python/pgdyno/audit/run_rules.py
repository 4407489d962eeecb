"""Lists every rule, in the order of reports, and runs them."""

import pkgutil
from collections.abc import Iterator, Sequence
from importlib import import_module

from pgdyno.analyse.price import PriceList
from pgdyno.audit import rules as folder
from pgdyno.audit.finding import Finding, Rule, Severity
from pgdyno.audit.subject import AuditRun, Subject


def _registered_rules() -> Iterator[Rule]:
    for module in pkgutil.iter_modules(folder.__path__):
        yield import_module(f"{folder.__name__}.{module.name}").RULE


RULES: Sequence[Rule] = tuple(sorted(_registered_rules(), key=lambda rule: (rule.place, rule.id)))
"""A test compares this list with `docs/reference/audit.md`."""


def audit(run: AuditRun, rules: Sequence[Rule] = RULES, prices: PriceList | None = None) -> list[Finding]:
    """Return what `rules` find in `run`, most severe first, with rules that lack their input last.

    `prices` are those given on the command line; None means the plan's.
    """
    return audit_subject(Subject(run, given_prices=prices), rules)


def audit_subject(subject: Subject, rules: Sequence[Rule] = RULES) -> list[Finding]:
    """Audit a subject that other analyses use, too, so that shared results are computed once."""
    found = [finding for rule in rules for finding in rule.findings(subject)]
    order = list(Severity)
    return sorted(found, key=lambda finding: (not finding.checked, -order.index(finding.severity)))
