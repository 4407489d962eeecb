"""Runs a command with what the crates' tests need: a server of PostgreSQL 18, and a real pgbench."""

import os
import subprocess
import sys

from pgdyno.targets import Home, SilentProgress, open_target
from pgdyno.targets.embedded.schema import EmbeddedTarget
from tests.conninfo import conninfo
from tests.postgres.pgbench_words import has_known_words, installed_pgbench, version_of


def main() -> int:
    spec = EmbeddedTarget(kind="embedded", version="18", settings={"fsync": "off"})
    home, progress = Home.locate(), SilentProgress()
    pgbench = installed_pgbench()
    with open_target("for-rust", spec, home=home, progress=progress) as server:
        environment = {
            **os.environ,
            **server.environment(),
            "PGDYNO_TEST_PGBENCH": pgbench,
            "PGDYNO_TEST_PGBENCH_WORDS": "known" if has_known_words(version_of(pgbench)) else "unknown",
            "PGDYNO_TEST_DSN": conninfo(server),
        }
        return subprocess.run(sys.argv[1:], env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
