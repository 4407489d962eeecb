"""The plan's schema of a local target."""

import os
import shutil
from collections.abc import Iterator, Mapping
from typing import ClassVar, Literal

from pgdyno.errors import Problem
from pgdyno.mounts import expand_home, is_folder
from pgdyno.plan.plan_document import Document
from pgdyno.plan.targets import PROGRAMS, OwnTarget, PlanPath, TargetSpec


class LocalTarget(OwnTarget):
    """An installation on this machine, with which pgdyno creates its own cluster."""

    kind: Literal["local"]
    bin: str | None = None
    """The folder with `initdb` and `postgres`; if not set, that of pg_config on the PATH."""

    summary: ClassVar[str] = "installed on this machine"

    def programs(self) -> str:
        return f"local, {self.bin or 'what pg_config says'}"

    def executes(self) -> Iterator[tuple[PlanPath, str]]:
        """Yield the commands that the plan makes pgdyno execute.

        These are the programs in its folder, and those of every server that pgdyno starts.
        """
        if self.bin is not None:
            yield ("bin",), f"programs in {self.bin}"
        yield from super().executes()

    def check(self, name: str, targets: Mapping[str, TargetSpec], document: Document) -> Iterator[Problem]:
        """Check that its programs exist, and what is checked for every server that pgdyno starts."""
        yield from super().check(name, targets, document)
        yield from self._check_programs(("target", name, "bin"), document)

    def _check_programs(self, path: PlanPath, document: Document) -> Iterator[Problem]:
        remedy = "set bin to the folder with initdb and postgres, such as /usr/lib/postgresql/18/bin"
        if self.bin is None:
            if shutil.which("pg_config") is None:
                yield document.problem(path, "is missing, and there is no pg_config on the PATH", remedy)
            return
        folder = expand_home(self.bin)
        if not is_folder(folder):
            yield document.problem(path, f"there is no folder {folder}", remedy)
            return
        for program in PROGRAMS:
            if not os.access(folder / program, os.X_OK):
                yield document.problem(path, f"there is no program {program} in {folder}", remedy)
