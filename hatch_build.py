"""Puts the engine into the wheel: builds it with cargo, ships it beside the `pgdyno` command, with others' notices."""

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


class EngineHook(BuildHookInterface[Any]):
    """Runs for wheels and editable installs; a source distribution has the crates instead."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Adds the programs as scripts, the notices, and the platform to the wheel's name.

        `version` is the build's kind; an editable one is read from its source, and carries no notices.
        """
        if self.target_name != "wheel":
            return
        translations.compile_all()
        cargo = [os.environ.get("CARGO", "cargo"), "build", "--release", "--locked"]
        cargo += [argument for crate in third_party.PROGRAMS.values() for argument in ("--package", crate)]
        subprocess.run(cargo, cwd=self.root, check=True)
        target = Path(os.environ.get("CARGO_TARGET_DIR", Path(self.root) / "target")) / "release"
        build_data["shared_scripts"] = {str(target / program): program for program in third_party.PROGRAMS}
        build_data["pure_python"] = False
        if version == "standard":
            notices = target / third_party.NAME
            notices.write_text(third_party.notices(Path(self.root)), encoding="utf-8")
            build_data["force_include"][str(notices)] = f"pgdyno/{third_party.NAME}"
        # any Python 3 on this platform: the programs don't link to it
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["tag"] = f"py3-none-{platform}"
