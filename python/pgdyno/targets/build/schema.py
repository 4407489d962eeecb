"""What a plan says of a target that is built."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path as FilePath
from typing import ClassVar, Literal

from pydantic import Field

from pgdyno.errors import Problem
from pgdyno.plan.reading.plan_document import Document
from pgdyno.plan.targets import OwnTarget, PlanPath, TargetSpec, check_variables
from pgdyno.plan.values import Setting

_PLACES = ("--prefix", "--exec-prefix", "--bindir", "--libdir", "--datadir", "-Dprefix", "-Dbindir", "-Dlibdir")
"""Options that say where a build is installed, which pgdyno does."""


class BuildTarget(OwnTarget):
    """A source tree that pgdyno builds; it makes a cluster of its own with that."""

    kind: Literal["build"]
    source: str
    """A git checkout or an unpacked archive of PostgreSQL's source."""
    configure: list[str] = Field(default_factory=list)
    """Arguments of configure, or of meson setup."""
    build_system: Literal["configure", "meson"] | None = None
    """What builds it; None: configure where there is one, else meson."""
    cflags: str | None = None
    """CFLAGS; None leaves them to configure."""
    build_variables: dict[str, Setting] = Field(default_factory=dict)
    """Further environment variables of the build."""

    summary: ClassVar[str] = "from a source tree"

    def programs(self) -> str:
        """Where its programs come from, in words."""
        return ", ".join([f"built from {self.source}", *self.configure])

    def executes(self) -> Iterator[tuple[PlanPath, str]]:
        """The build, and what every server of ours runs."""
        variables = [f"{name}={value}" for name, value in self.build_variables.items()]
        flags = [f"CFLAGS={self.cflags}"] if self.cflags is not None else []
        words = shlex.join([*variables, *flags, self.build_system or "configure", *self.configure])
        yield ("source",), f"builds the sources in {self.source} with {words}, and runs what is built"
        yield from super().executes()

    def check(self, name: str, targets: Mapping[str, TargetSpec], document: Document) -> Iterator[Problem]:
        """What is checked of every server of ours, and of its source tree."""
        yield from super().check(name, targets, document)
        yield from _source(("target", name), self, document)


def _source(path: PlanPath, target: BuildTarget, document: Document) -> Iterator[Problem]:
    folder = FilePath(target.source).expanduser()
    if not folder.is_dir():
        yield document.problem((*path, "source"), f"there is no folder {folder}")
    elif not any((folder / name).is_file() for name in ("configure", "meson.build")):
        message = f"there is neither configure nor meson.build in {folder}"
        yield document.problem((*path, "source"), message, "name the top folder of PostgreSQL's source")
    elif target.build_system is not None:
        file = "meson.build" if target.build_system == "meson" else "configure"
        if not (folder / file).is_file():
            hint = "PostgreSQL has it from version 16 on" if target.build_system == "meson" else 'use "meson"'
            yield document.problem((*path, "build_system"), f"there is no {file} in {folder}", hint)
    for place, argument in enumerate(target.configure):
        if argument.startswith(_PLACES):
            message = f"{argument} cannot be given: pgdyno installs builds in its home"
            yield document.problem((*path, "configure", place), message, "remove it")
    yield from check_variables((*path, "build_variables"), target.build_variables, document)
