"""initdb: a new cluster."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from pgdyno.errors import TargetError
from pgdyno.targets.account import Account
from pgdyno.targets.installation import Installation
from pgdyno.targets.private_file import write_private
from pgdyno.targets.programs import run_program
from pgdyno.targets.storage import no_space_hint, storing

USER = "postgres"
"""The superuser of every cluster."""

_REFUSED_LONG = {
    "pgdata": "pgdyno makes the cluster in a folder of its own",
    "waldir": "the target's environment has a key wal for that",
    "xlogdir": "the target's environment has a key wal for that",
    "username": "pgdyno connects as postgres",
    "auth": "pgdyno sets how its user is let in",
    "auth-local": "pgdyno sets how its user is let in",
    "auth-host": "pgdyno sets how its user is let in",
    "pwfile": "pgdyno draws a password",
    "pwprompt": "pgdyno draws a password",
    "show": "it makes no cluster",
    "sync-only": "it makes no cluster",
    "version": "it makes no cluster",
    "help": "it makes no cluster",
}
_SHORT = {
    "D": "pgdata",
    "X": "waldir",
    "U": "username",
    "A": "auth",
    "W": "pwprompt",
    "s": "show",
    "S": "sync-only",
    "V": "version",
    "?": "help",
}


def check_arguments(arguments: Sequence[str]) -> None:
    """Raises TargetError when a plan's argument of initdb is one that pgdyno gives itself."""
    for argument in arguments:
        reason = _refusal(argument)
        if reason is not None:
            raise TargetError(f"cannot pass {argument} to initdb: {reason}", hint="remove it from the target's initdb")


def init_cluster(
    installation: Installation,
    data_directory: Path,
    account: Account,
    extra: Sequence[str],
    password: str,
    *,
    durable: bool,
    wal: Path | None = None,
) -> None:
    """Makes a cluster in `data_directory`, which is created for `account`, with its WAL in `wal` if that is given.

    UTF8 and locale C unless `extra` says otherwise: the same on every machine and in every version.
    The superuser `postgres` has `password`; `write_access` says before each start who needs it.
    `durable` waits until the files are on disk. Raises TargetError.
    """
    with storing(data_directory, "cannot create the folder"):
        data_directory.mkdir(0o700)
        account.take(data_directory)
    password_file = data_directory.with_name("password")
    try:
        write_private(password_file, f"{password}\n", account)
        arguments = [
            # two words: a sweep knows a server by the folder among its arguments
            "-D",
            str(data_directory),
            f"--username={USER}",
            f"--pwfile={password_file}",
            "--auth-local=scram-sha-256",
            "--auth-host=scram-sha-256",
            "--encoding=UTF8",
            "--locale=C",
            *_checksums(installation, extra),
            *([] if durable else ["--no-sync"]),
            *([] if wal is None else [f"--waldir={wal}"]),
        ]
        status, output = run_program([installation.program("initdb"), *arguments], account, installation.environment())
    finally:
        password_file.unlink(missing_ok=True)
    if status != 0 or not (data_directory / "PG_VERSION").is_file():
        shutil.rmtree(data_directory, ignore_errors=True)
        hint = no_space_hint(data_directory) if "No space left on device" in output else None
        raise TargetError(f"cannot make a cluster with initdb {installation.version}: {_reason(output)}", hint=hint)


def _checksums(installation: Installation, extra: Sequence[str]) -> list[str]:
    # before 18 initdb has no word for "without": it is what happens when nothing is said
    without = "--no-data-checksums"
    if without not in extra:
        return ["--data-checksums", *extra]
    return list(extra) if installation.major >= 18 else [each for each in extra if each != without]


def _refusal(argument: str) -> str | None:
    if argument.startswith("--"):
        name = argument[2:].partition("=")[0]
        # getopt takes every beginning of a name that is clear
        return next((why for long, why in _REFUSED_LONG.items() if long.startswith(name)), None)
    if argument.startswith("-") and len(argument) > 1:
        long = _SHORT.get(argument[1])
        return None if long is None else _REFUSED_LONG[long]
    return None


def _reason(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    telling = [line for line in lines if "error:" in line or "FATAL:" in line or "DETAIL:" in line]
    return " | ".join(telling or lines[-5:]) or "it says nothing"
