"""Any commit as a target of the plan, and its programs: built when they are needed, and kept within a limit."""

import hashlib
import os
import re
import shlex
import shutil
import time
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pgdyno.bisection.journal import Asked, By
from pgdyno.bisection.repository import Commit
from pgdyno.errors import ExitCode, PgdynoError, TargetError, UsageError
from pgdyno.mounts import expand_home
from pgdyno.plan import LoadedPlan, Plan
from pgdyno.plan.targets import OwnTarget
from pgdyno.targets import Home, Installation, Progress, fetch_target
from pgdyno.targets.build.cached_build import CachedBuild, builds_folder, compiler_variables
from pgdyno.targets.build.source_tree import copy_tree, read_tree
from pgdyno.targets.home import FullDiskError

BUILD = "build"
LEAST_FREE_BYTES = 200 << 20
"""A server takes about this much; one that fails while less is free says nothing about its commit."""
_FULL = re.compile(r"o space left|has [\d.]+ \w+ free")
MARK = "bisected"
"""The file in a build's folder that says who made it; its time is that of the last use."""


class NoSpaceError(PgdynoError):
    """A build or a server failed for lack of space: nothing is known about its commit."""

    exit_code = ExitCode.TARGET


class Arms:
    """The plan of a bisection with any of its commits as targets."""

    def __init__(self, asked: Asked, loaded: LoadedPlan, home: Home, progress: Progress, *, is_server: bool) -> None:
        """`is_server`: whether the commits are those of PostgreSQL. Raise UsageError for a plan that cannot be used."""
        self._asked = asked
        self._home = home
        self._progress = progress
        self._is_server = is_server
        self._loaded = loaded
        plan = loaded.plan
        targets = list(plan.target.values())
        if len(targets) != 1 or not isinstance(targets[0], OwnTarget) or plan.search is not None:
            raise UsageError(
                f"{loaded.source} has several targets, or one that pgdyno does not start, or a search",
                hint="give it one target: pgdyno replaces it by a commit, and compares it with another",
            )
        self.by: By = asked.by or self.usual
        """The figure that is compared."""
        if (self.by == "instructions") != (self.usual == "instructions"):
            raise UsageError(
                f"--by {self.by} is not what {loaded.source} measures",
                hint='set trial.measure = "instructions" and trial.transactions in the plan, or remove them',
            )
        (self._target,) = plan.as_resolved()["target"].values()
        self._built: dict[Commit, Installation] = {}
        self.build_s: dict[str, float] = {}
        """Seconds that each build took, by the commit's hash."""

    @property
    def usual(self) -> By:
        """Return what the plan measures, by which a run of pairs may stop when it is decided."""
        if self._loaded.plan.trial.measure == "instructions":
            return "instructions"
        return "p99" if all(point.rate is not None for point in self._loaded.plan.points()) else "tps"

    def plan_of(self, commits: Sequence[Commit], pairs: int | str, margin: str | None) -> LoadedPlan:
        """Return the plan that compares `commits`, the base first."""
        resolved = self._loaded.plan.as_resolved()
        resolved["target"] = {each.short: self._table(each) for each in commits}
        order = "interleaved" if len(commits) > 1 else "as-listed"
        resolved["trial"] |= {"repeats": pairs, "margin": margin, "order": order, "on_failure": "stop", "seed": None}
        return replace(self._loaded, plan=Plan.from_resolved(resolved | {"name": "bisect"}))

    def build(self, commit: Commit, kept: Collection[Commit] = ()) -> Installation:
        """Return the programs of `commit`; remove the oldest builds of others than `kept` beyond the limit.

        Raises TargetError if it cannot be built, NoSpaceError for lack of space.
        """
        if self._lacks_space():
            self._remove_oldest(0, kept)
        try:
            found = self._build(commit)
        except FullDiskError as error:
            # those of other commits and of earlier bisections
            if not self._remove_oldest(0, kept):
                raise self._no_space(error.message) from error
            try:
                found = self._build(commit)
            except FullDiskError as again:
                raise self._no_space(again.message) from again
        self._built[commit] = found
        self._remove_oldest(self._asked.cache_bytes, (*kept, commit))
        return found

    def check_space(self, error: str) -> None:
        """Raise NoSpaceError if what failed with `error` may have lacked space."""
        if _FULL.search(error) or self._lacks_space():
            raise self._no_space(error)

    def _lacks_space(self) -> bool:
        return shutil.disk_usage(self._home.root).free < LEAST_FREE_BYTES

    def _table(self, commit: Commit) -> dict[str, Any]:
        repo, table = self._asked.repo, dict(self._target)
        own = {name: value for name, value in table.items() if name in OwnTarget.model_fields}
        if self._asked.build is not None:
            return own | {"kind": "local", "bin": str(self._prefix(commit) / "bin")}
        if self._is_server:
            of_build = table if table["kind"] == BUILD else own | {"configure": self._asked.configure}
            return of_build | {"kind": BUILD, "source": repo, "commit": commit.sha}
        given = table.get("extensions") or []
        others = [each for each in given if expand_home(each["source"]).resolve() != Path(repo)]
        same: dict[str, Any] = next((each for each in given if each not in others), {})
        return table | {"extensions": [*others, same | {"source": repo, "commit": commit.sha}]}

    def _build(self, commit: Commit) -> Installation:
        began = time.time()
        if self._asked.build is not None:
            self._run_script(self._asked.build, commit)
        (spec,) = self.plan_of([commit], 1, None).plan.target.values()
        found = fetch_target(commit.short, spec, home=self._home, progress=self._progress)
        assert isinstance(found, Installation)
        folder = self._folder(found)
        mark = folder / MARK
        if folder.stat().st_ctime >= began:
            self.build_s[commit.sha] = time.time() - began
        mark.touch()
        return found

    def _script_key(self, commit: Commit) -> str:
        facts = [self._asked.repo, commit.sha, self._asked.build, sorted(compiler_variables(os.environ).items())]
        return hashlib.sha256(repr(facts).encode()).hexdigest()[:16]

    def _prefix(self, commit: Commit) -> Path:
        """Return where --build installs, before and after it: programs may contain the path of their libraries."""
        return builds_folder(self._home) / f"{self._script_key(commit)}.installed"

    def _run_script(self, command: str, commit: Commit) -> None:
        source = read_tree(Path(self._asked.repo), commit.sha)
        variables = compiler_variables(os.environ)
        build = CachedBuild(self._home, self._script_key(commit), source.folder, self._progress, variables, os.environ)
        prefix = self._prefix(commit)

        def carry_out() -> Path:
            work, staged = build.partial / "source", build.partial / "staged"
            shutil.rmtree(prefix, ignore_errors=True)
            copy_tree(source, work)
            build.run("building", ["/bin/sh", "-c", f"{command} {shlex.quote(str(prefix))}"], work)
            if not (prefix / "bin" / "postgres").exists():
                raise TargetError(
                    f"cannot build {source.folder}: {command} installed no bin/postgres",
                    hint="it gets the folder to install into as its last argument",
                )
            staged.mkdir()
            return staged

        build.complete(f"{source.folder}, {source.words}, by {command}", carry_out)

    def _folder(self, found: Installation) -> Path:
        builds = builds_folder(self._home)
        return builds / found.bin.relative_to(builds).parts[0].removesuffix(".installed")

    def _remove_oldest(self, limit: int, kept: Collection[Commit]) -> bool:
        """Remove builds of bisections, the oldest first, until all of them take at most `limit` bytes.

        Return whether any was removed.
        """
        needed = {self._folder(self._built[each]) for each in kept if each in self._built}
        marks = sorted(builds_folder(self._home).glob(f"*/{MARK}"), key=lambda mark: mark.stat().st_mtime)
        sizes = {mark.parent: _size(mark.parent) + _size(_installed(mark.parent)) for mark in marks}
        removed = False
        for folder in [each for each in sizes if each not in needed]:
            if sum(sizes.values()) <= limit:
                break
            for each in (folder, _installed(folder)):
                shutil.rmtree(each, ignore_errors=True)
            del sizes[folder]
            removed = True
        return removed

    def _no_space(self, error: str) -> NoSpaceError:
        place = self._home.root
        return NoSpaceError(
            f"too little space is left in {place} to build and measure commits: {error.partition(chr(10))[0]}",
            hint=f"free space where {place} is, or set PGDYNO_HOME to a folder with more; then resume",
        )


def _installed(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.installed")


def _size(folder: Path) -> int:
    """Return the bytes of the disk that the files in `folder` take."""
    files = (Path(at, name) for at, _, names in os.walk(folder) for name in names)
    return sum(path.lstat().st_blocks * 512 for path in files)
