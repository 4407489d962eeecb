"""Checks names and values of settings that a server would refuse only after it was downloaded and started."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pgdyno.errors import Problem
from pgdyno.plan.known_settings import KNOWN, wrong_unit
from pgdyno.plan.plan_document import Document, KeyPath, near


def check_settings(
    path: KeyPath, settings: Mapping[str, object], document: Document, *, of_postgresql: bool
) -> Iterator[Problem]:
    """Yield settings at `path` with wrong units, and misspelled ones if the servers are PostgreSQL as released.

    A name that resembles none may be new in a minor release.
    """
    for name, values in settings.items():
        if of_postgresql and "." not in name and name.lower() not in KNOWN and (meant := near(name, KNOWN)):
            yield document.problem((*path, name), "is no setting of PostgreSQL", f"did you mean {meant}?")
        for value in values if isinstance(values, list) else [values]:
            wrong = wrong_unit(name, str(value))
            if wrong is not None:
                yield document.problem((*path, name), *wrong)
                break
