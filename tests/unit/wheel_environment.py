"""For tests of what a wheel carries beside its programs."""

import os
from pathlib import Path

import third_party

CARGO = '#!/bin/sh\n[ "$1" = build ] || exec cargo "$@"\n'


def without_compiler(folder: Path) -> dict[str, str]:
    """Environment variables under which the programs of a wheel are scripts in `folder`, and cargo compiles nothing.

    `make dist-check` builds wheels with their programs, and runs them.
    """
    programs = folder / "target" / "release"
    programs.mkdir(parents=True)
    for program in third_party.PROGRAMS:
        (programs / program).write_text("#!/bin/sh\n")
    cargo = folder / "cargo"
    cargo.write_text(CARGO)
    cargo.chmod(0o755)
    return {**os.environ, "CARGO": str(cargo), "CARGO_TARGET_DIR": str(folder / "target")}
