"""Builds the engine with cargo and adds it to the wheel, next to the `pgdyno` command, with third-party notices.

The wheel also has the manual page and the generated reference if `tools/pages.py` wrote them to target/pages.

`make dist` does so, and builds the programs itself, for each machine, and names them by PGDYNO_WHEEL_TARGET: such a
wheel runs on any Linux of that machine, because its programs are linked statically.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

sys.path.insert(0, str(Path(__file__).parent))
import third_party
import translations

TARGET = "PGDYNO_WHEEL_TARGET"
"""Environment variable: `x86_64-unknown-linux-musl`, whose programs are in target/x86_64-unknown-linux-musl/release."""


class EngineHook(BuildHookInterface[Any]):
    """Runs for wheels and editable installs; a source distribution has the crates instead.

    An editable install is read from its source, and has no programs: `make build` puts them beside it.
    """

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Adds the programs as scripts, the notices, the pages, and the platform to the wheel's name.

        `version` is the build's kind: `standard` or `editable`.
        """
        if self.target_name != "wheel":
            return
        translations.compile_all()
        if version == "editable":
            return
        folder = Path(os.environ.get("CARGO_TARGET_DIR", Path(self.root) / "target"))
        target = os.environ.get(TARGET)
        if target:
            folder = folder / target / "release"
            missing = [program for program in third_party.PROGRAMS if not (folder / program).is_file()]
            if missing:
                raise FileNotFoundError(f"{TARGET}={target}: no {missing[0]} in {folder}; make dist builds it")
        else:
            folder = folder / "release"
            cargo = [os.environ.get("CARGO", "cargo"), "build", "--release", "--locked"]
            cargo += [argument for crate in third_party.PROGRAMS.values() for argument in ("--package", crate)]
            subprocess.run(cargo, cwd=self.root, check=True)
        build_data["shared_scripts"] = {str(folder / program): program for program in third_party.PROGRAMS}
        pages = Path(self.root) / "target" / "pages"
        if target and not pages.is_dir():
            raise FileNotFoundError(f"{TARGET}={target}: no {pages}; make dist writes it")
        shared = {"man": "share/man/man1", "doc": "share/doc/pgdyno"}
        build_data["shared_data"] = {str(pages / kind): shared[kind] for kind in shared if (pages / kind).is_dir()}
        build_data["pure_python"] = False
        notices = folder / third_party.NAME
        notices.write_text(third_party.notices(Path(self.root), target), encoding="utf-8")
        build_data["force_include"][str(notices)] = f"pgdyno/{third_party.NAME}"
        # any Python 3 on this platform: the programs don't link to it
        build_data["tag"] = f"py3-none-{platforms(target)}"


def platforms(target: str | None) -> str:
    """The platforms of the wheel's name: those of programs that need no C library, or this one."""
    if target:
        machine = target.partition("-")[0]
        # the oldest that pip knows of each C library
        return f"manylinux_2_17_{machine}.manylinux2014_{machine}.musllinux_1_1_{machine}"
    return sysconfig.get_platform().replace("-", "_").replace(".", "_")
