"""Checks targets: their settings here, the rest by kind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pgdyno.errors import Problem
from pgdyno.plan.document import Document
from pgdyno.plan.network_target import NetworkTarget
from pgdyno.plan.reserved import refusal
from pgdyno.plan.setting_contexts import network_refusal
from pgdyno.plan.targets import TargetSpec


def check_targets(targets: Mapping[str, TargetSpec], document: Document) -> Iterator[Problem]:
    """Yields everything of `targets` that is impossible, as far as the plan alone shows it."""
    for name, target in targets.items():
        yield from _settings(name, target, document)
        yield from target.check(name, targets, document)


def _settings(name: str, target: TargetSpec, document: Document) -> Iterator[Problem]:
    for setting in target.settings:
        reason, remedy = refusal(setting), "remove it"
        if isinstance(target, NetworkTarget):
            reason, remedy = reason or network_refusal(setting), target.setting_remedy
        if reason is not None:
            yield document.problem(("target", name, "settings", setting), f"cannot be set: {reason}", remedy)
