"""Runs PostgreSQL's TAP tests of pgbench with pgdrive instead: `make test-tap SOURCE=...`.

SOURCE is an unpacked source tree of PostgreSQL. Nothing in it is built or changed: the tests run from copies in a
temporary folder. The server is the embedded one of the same major version, and psql is the one on PATH. The output of
each test file is in `target/tap`.

Exits with 1 if a test fails that is not in `DELIBERATE`, if one of these passes, or if a file ends early.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from pgdyno.errors import TargetError
from pgdyno.targets import Home, SilentProgress
from pgdyno.targets.cluster.installation import Installation
from pgdyno.targets.embedded.kind import find_embedded
from pgdyno.targets.embedded.schema import EmbeddedTarget
from pgdyno.targets.server_user import Account

ROOT = Path(__file__).parents[1]
PGDRIVE = Path(sys.executable).parent / "pgdrive"
OUTPUTS = ROOT / "target" / "tap"
SUITE = Path("src/bin/pgbench/t")
MODULES = Path("src/test/perl")
DELIBERATE = {
    "Test copy in script status": "COPY in scripts works",
    "Test copy in script stderr": "COPY in scripts works",
    "pgbench option error: too many scripts stderr": "there may be more than 128 scripts",
}
"""Beginnings of the names of tests that pgdrive fails on purpose, with what it does instead."""
LIMIT_S = 1200.0


Results = list[tuple[str, bool]]
"""The assertions of a test file by name, and whether they hold."""


def read(output: str) -> tuple[Results, bool]:
    """Parses the Test Anything Protocol; tells whether all declared assertions are there, too.

    A failure marked TODO counts as passed, as for prove.
    """
    results, planned = [], None
    for line in output.splitlines():
        if plan := re.fullmatch(r"1\.\.(\d+).*", line):
            planned = int(plan[1])
        elif result := re.fullmatch(r"(not )?ok \d+(?: - )?(.*)", line):
            name, _, directive = result[2].partition(" # ")
            results.append((name, not result[1] or directive.startswith("TODO")))
    return results, planned == len(results)


def prepare(source: Path, folder: Path, installation: Installation, account: Account) -> None:
    """Copies and creates in `folder` what the tests read, write and call."""
    shutil.copytree(source / SUITE, folder / "t")
    shutil.copytree(source / MODULES, folder / "perl")
    for name in ("bin", "data", "log"):
        (folder / name).mkdir()
        account.take(folder / name)
    folder.chmod(0o755)
    shutil.copy(PGDRIVE, folder / "bin" / "pgbench")
    # the tests ask it for the version alone
    pg_config = folder / "bin" / "pg_config"
    pg_config.write_text(f"#!/bin/sh\necho PostgreSQL {installation.version}\n")
    pg_config.chmod(0o755)


def run(test: Path, folder: Path, installation: Installation, account: Account) -> tuple[Results, bool]:
    """Runs one test file as the user that runs servers."""
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("PG")},
        "PATH": f"{folder / 'bin'}:{installation.bin}:{os.environ['PATH']}",
        "LC_ALL": "C",
        "TESTDATADIR": str(folder / "data"),
        "TESTLOGDIR": str(folder / "log"),
        # pg_regress --config-auth changes something on Windows alone
        "PG_REGRESS": "true",
    }
    done = subprocess.run(
        ["perl", "-I", str(folder / "perl"), str(test)], cwd=folder, env=environment, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, timeout=LIMIT_S, check=False, **account.popen_user(),
    )  # fmt: skip
    (OUTPUTS / f"{test.stem}.log").write_text(done.stdout)
    return read(done.stdout)


def run_all(source: Path) -> dict[str, tuple[Results, bool]]:
    """Runs every test file; returns what it reports by its name. Raises TargetError if there is no server for them."""
    home = Home.locate()
    major = re.search(r"PACKAGE_VERSION='(\d+)", (source / "configure").read_text())
    if major is None:
        sys.exit(f"{source / 'configure'} does not name PostgreSQL's version")
    installation = find_embedded(EmbeddedTarget(kind="embedded", version=major[1]), home, SilentProgress())
    OUTPUTS.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="pgdyno-tap-") as name:
        folder = Path(name)
        prepare(source, folder, installation, home.account)
        tests = sorted((folder / "t").glob("*.pl"))
        return {test.name: run(test, folder, installation, home.account) for test in tests}


def main() -> int:
    parser = argparse.ArgumentParser(description="PostgreSQL's own tests of pgbench, with pgdrive in its place")
    parser.add_argument("source", type=Path, help="an unpacked source tree of PostgreSQL 18")
    source = parser.parse_args().source.resolve()
    for needed in (source / SUITE, source / MODULES, source / "configure"):
        if not needed.exists():
            parser.error(f"{needed} does not exist: SOURCE must be a source tree of PostgreSQL")
    for program in ("perl", "psql"):
        if shutil.which(program) is None:
            parser.error(f"{program} is not on PATH: the tests need it")
    try:
        reports = run_all(source)
    except TargetError as error:
        sys.exit(f"no server for the tests: {error}")
    wrong, every = 0, []
    for file, (results, is_complete) in reports.items():
        for name, passed in results:
            if passed == name.startswith(tuple(DELIBERATE)):
                wrong += 1
                print("passes, but is in DELIBERATE:" if passed else "fails:", name)
        print(f"{file}: {sum(passed for _, passed in results)} of {len(results)} pass")
        if not is_complete:
            wrong += 1
            print(f"stopped early, see {OUTPUTS / Path(file).with_suffix('.log').name}")
        every += results
    deliberate = sum(name.startswith(tuple(DELIBERATE)) for name, _ in every)
    print(f"all: {sum(passed for _, passed in every)} of {len(every)} pass, {deliberate} are meant to fail")
    return 1 if wrong or not every else 0


if __name__ == "__main__":
    sys.exit(main())
