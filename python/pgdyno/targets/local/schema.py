"""What a plan says of a local target."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path as FilePath
from typing import ClassVar, Literal

from pgdyno.errors import Problem
from pgdyno.plan.reading.plan_document import Document
from pgdyno.plan.targets import PROGRAMS, OwnTarget, PlanPath, TargetSpec


class LocalTarget(OwnTarget):
    """An installation on this machine; pgdyno makes a cluster of its own with it."""

    kind: Literal["local"]
    bin: str | None = None
    """Folder with `initdb` and `postgres`; None asks pg_config on the PATH."""

    summary: ClassVar[str] = "installed on this machine"

    def programs(self) -> str:
        """Where its programs come from, in words."""
        return f"local, {self.bin or 'what pg_config says'}"

    def executes(self) -> Iterator[tuple[PlanPath, str]]:
        """Programs of a folder that the plan names, and what every server of ours runs."""
        if self.bin is not None:
            yield ("bin",), f"programs in {self.bin}"
        yield from super().executes()

    def check(self, name: str, targets: Mapping[str, TargetSpec], document: Document) -> Iterator[Problem]:
        """What is checked of every server of ours, and whether its programs are there."""
        yield from super().check(name, targets, document)
        yield from self._check_programs(("target", name, "bin"), document)

    def _check_programs(self, path: PlanPath, document: Document) -> Iterator[Problem]:
        remedy = "set bin to the folder with initdb and postgres, such as /usr/lib/postgresql/18/bin"
        if self.bin is None:
            if shutil.which("pg_config") is None:
                yield document.problem(path, "is missing, and there is no pg_config on the PATH", remedy)
            return
        folder = FilePath(self.bin).expanduser()
        if not folder.is_dir():
            yield document.problem(path, f"there is no folder {folder}", remedy)
            return
        for program in PROGRAMS:
            if not os.access(folder / program, os.X_OK):
                yield document.problem(path, f"there is no program {program} in {folder}", remedy)
