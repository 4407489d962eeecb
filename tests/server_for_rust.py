"""Runs a command with PGDYNO_TEST_PG_BIN set to an embedded PostgreSQL 18: the crates' tests start servers with it."""

from __future__ import annotations

import os
import subprocess
import sys

from pgdyno.plan.model import EmbeddedTarget
from pgdyno.target import Home, SilentProgress, open_target


def main() -> int:
    spec = EmbeddedTarget(kind="embedded", version="18", settings={"fsync": "off"})
    with open_target("for-rust", spec, home=Home.locate(), progress=SilentProgress()) as server:
        environment = {**os.environ, "PGDYNO_TEST_DSN": server.conninfo(), **server.environment()}
        return subprocess.run(sys.argv[1:], env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
