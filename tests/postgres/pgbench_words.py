"""Compares the output of the installed pgbench with that of pgdrive.

pgdrive prints the messages of the newest pgbench. The installed pgbench has any minor version, and minor versions
reword messages: 15.20 says `-c/--client` where 15.18 said `-c/--clients`. So all versions must agree in the meaning of
messages, and versions whose wording is known here must agree in the wording, too.
"""

import re
import shutil
import subprocess
from collections import Counter
from functools import cache
from itertools import zip_longest
from pathlib import Path

KNOWN = {15: 20}
"""By major version, the newest minor version whose messages were compared."""
REWORDED = {"-c/--clients": "-c/--client"}
"""Wordings of older known versions, with those of the newest pgbench."""

Meaning = tuple[str, Counter[str]]


def installed_pgbench() -> str:
    found = shutil.which("pgbench")
    assert found is not None, "no pgbench on PATH to compare with: make test-packages installs the package postgresql"
    if Path(found).resolve().name != "pg_wrapper":
        return found
    # Debian's wrapper is a Perl script: it takes 30 ms to start the program, which itself takes 6 ms
    programs = Path("/usr/lib/postgresql").glob("*/bin/pgbench")
    return str(max(programs, key=lambda program: int(program.parts[4])))


@cache
def version_of(program: str) -> tuple[int, int]:
    printed = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"\(PostgreSQL\) (\d+)(?:\.(\d+))?", printed)
    assert found is not None, printed
    # a version under development has no minor version
    return int(found[1]), int(found[2] or 0)


def has_known_words(version: tuple[int, int]) -> bool:
    return version[1] <= KNOWN.get(version[0], -1)


def assert_same_words(ours: str, theirs: str, version: tuple[int, int] | None = None) -> None:
    """Asserts that pgdrive prints what a pgbench of that version, by default the installed one, prints.

    Both texts must be without what differs from run to run, such as times and names of databases.
    """
    version = version or version_of(installed_pgbench())
    for our_line, their_line in zip_longest(ours.split("\n"), theirs.split("\n"), fillvalue=""):
        assert meaning(our_line) == meaning(their_line), (ours, theirs)
    if has_known_words(version):
        assert ours == newest_words(theirs)


def newest_words(text: str) -> str:
    for old, new in REWORDED.items():
        text = re.sub(rf"{re.escape(old)}(?!\w)", new, text)
    return text


def meaning(line: str) -> Meaning:
    """Returns what a line must contain in any wording: its kind (error, detail, hint), and the values that it names."""
    kind = re.match(r"(?:pgbench: )?(\w+):", line)
    values = re.findall(r'"[^"]*"|(?<![\w.])-?\d+(?:\.\d+)*', line)
    return kind[1] if kind else "", Counter(values)
