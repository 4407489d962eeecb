"""The plan's schema of a target that pgdyno builds."""

import shlex
from collections.abc import Iterator, Mapping
from typing import ClassVar, Literal

from pgdyno.errors import Problem
from pgdyno.mounts import expand_home, is_file
from pgdyno.plan.plan_document import Document
from pgdyno.plan.targets import OwnTarget, PlanPath, TargetSpec, check_sources, check_variables, described_state
from pgdyno.plan.values import Setting

_PLACES = ("--prefix", "--exec-prefix", "--bindir", "--libdir", "--datadir", "-Dprefix", "-Dbindir", "-Dlibdir")
"""Options for the installation path, which pgdyno sets itself."""


class BuildTarget(OwnTarget):
    """A source tree that pgdyno builds, and with which it creates its own cluster."""

    kind: Literal["build"]
    source: str
    """A git checkout or an unpacked archive of PostgreSQL's source."""
    commit: str | None = None
    """A commit, branch or tag to build; if not set, the files that are there, with uncommitted changes."""
    patches: list[str] = []
    """Patches to apply to a copy of the tree, in this order: diffs, or mails of git format-patch."""
    configure: list[str] = []
    """Arguments for configure, or for meson setup."""
    build_system: Literal["configure", "meson"] | None = None
    """The build system; if not set, configure if the tree has it, else meson."""
    cflags: str | None = None
    """CFLAGS; if not set, configure's default applies."""
    build_variables: dict[str, Setting] = {}
    """Further environment variables of the build."""

    summary: ClassVar[str] = "from a source tree"

    def programs(self) -> str:
        return ", ".join([f"built from {self.source}", *described_state(self.commit, self.patches), *self.configure])

    def executes(self) -> Iterator[tuple[PlanPath, str]]:
        """Yield the commands that the plan makes pgdyno execute: the build, and those of servers that it starts."""
        variables = [f"{name}={value}" for name, value in self.build_variables.items()]
        flags = [f"CFLAGS={self.cflags}"] if self.cflags is not None else []
        words = shlex.join([*variables, *flags, self.build_system or "configure", *self.configure])
        sources = ", ".join([self.source, *described_state(self.commit, self.patches)])
        yield ("source",), f"builds the sources in {sources} with {words}, and runs what is built"
        yield from super().executes()

    def check(self, name: str, targets: Mapping[str, TargetSpec], document: Document) -> Iterator[Problem]:
        """Check the source tree, and what is checked for every server that pgdyno starts."""
        yield from super().check(name, targets, document)
        yield from _source(("target", name), self, document)


def _source(path: PlanPath, target: BuildTarget, document: Document) -> Iterator[Problem]:
    folder, files = expand_home(target.source), ["configure", "meson.build"]
    found = list(check_sources(path, target.source, target.commit, target.patches, files, document))
    yield from found
    if not found and target.commit is None and target.build_system is not None:
        file = "meson.build" if target.build_system == "meson" else "configure"
        if not is_file(folder / file):
            hint = "PostgreSQL has it from version 16 on" if target.build_system == "meson" else 'use "meson"'
            yield document.problem((*path, "build_system"), f"there is no {file} in {folder}", hint)
    for place, argument in enumerate(target.configure):
        if argument.startswith(_PLACES):
            message = f"{argument} cannot be given: pgdyno installs builds in its home"
            yield document.problem((*path, "configure", place), message, "remove it")
    yield from check_variables((*path, "build_variables"), target.build_variables, document)
