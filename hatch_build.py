"""Puts the engine into the wheel: builds it with cargo and ships it beside the `pgdyno` command."""

from __future__ import annotations

import os
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PROGRAMS = {"pgdrive": "pgdrive", "pgprobe": "pgdyno-probe", "pgnull": "pgdyno-nullserver"}
"""Programs that the wheel carries, and the crate of each."""


class EngineHook(BuildHookInterface[Any]):
    """Runs for wheels and editable installs; a source distribution has the crates instead."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Adds the programs as scripts, and the platform to the wheel's name. `version` is the build's kind."""
        del version
        if self.target_name != "wheel":
            return
        cargo = [os.environ.get("CARGO", "cargo"), "build", "--release", "--locked"]
        cargo += [argument for crate in PROGRAMS.values() for argument in ("--package", crate)]
        subprocess.run(cargo, cwd=self.root, check=True)
        target = Path(os.environ.get("CARGO_TARGET_DIR", Path(self.root) / "target")) / "release"
        build_data["shared_scripts"] = {str(target / program): program for program in PROGRAMS}
        build_data["pure_python"] = False
        # any Python 3 on this platform: the programs don't link to it
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["tag"] = f"py3-none-{platform}"
