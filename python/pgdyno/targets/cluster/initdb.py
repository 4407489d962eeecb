"""Creates a cluster by initdb, or as a copy of one that the home keeps, and controls who may connect to it.

Copying a cluster takes a tenth of the time of initdb. Only clusters that are removed after their run are copies: copies
share one system identifier, which PostgreSQL checks only between a standby and its primary. A kept cluster always comes
from its own initdb.

pg_hba.conf and pg_ident.conf are rewritten before every start. Through the socket, peer authentication accepts only
pgdyno's own user as `postgres`. When pgdyno is root, servers run as another user, whose other processes can reach the
socket but have no password. Every other role, and every connection over TCP, needs a password (SCRAM).
"""

import os
import pwd
import shutil
from collections.abc import Sequence
from pathlib import Path

from filelock import FileLock, Timeout

from pgdyno.errors import TargetError
from pgdyno.plan.targets import NO_CHECKSUMS
from pgdyno.targets.cluster.folders import copy_tree
from pgdyno.targets.cluster.installation import Installation
from pgdyno.targets.cluster.subprocesses import run_program
from pgdyno.targets.home import Home, ensure_folder, no_space_hint, target_errors, write_private
from pgdyno.targets.server_user import Account

USER = "postgres"
"""The superuser of every cluster."""

_REFUSED_LONG = {
    "pgdata": "pgdyno creates the cluster in a folder of its own",
    "waldir": "the target's environment has a key wal for that",
    "xlogdir": "the target's environment has a key wal for that",
    "username": "pgdyno connects as postgres",
    "auth": "pgdyno sets how its user authenticates",
    "auth-local": "pgdyno sets how its user authenticates",
    "auth-host": "pgdyno sets how its user authenticates",
    "pwfile": "pgdyno generates a password",
    "pwprompt": "pgdyno generates a password",
    "show": "it creates no cluster",
    "sync-only": "it creates no cluster",
    "version": "it creates no cluster",
    "help": "it creates no cluster",
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
_WITH_VALUE = "cELT"
"""Other short options of initdb, whose value may follow in the same argument."""


def check_arguments(arguments: Sequence[str]) -> None:
    """Raise TargetError if the plan gives initdb an argument that pgdyno sets itself."""
    for argument in arguments:
        reason = initdb_refusal(argument)
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
    """Create a cluster in `data_directory`, owned by `account`, with its WAL in the folder `wal` if given.

    The encoding is UTF8 and the locale C unless `extra` changes them: the same on every machine and in every version.
    The superuser `postgres` has `password`; `write_access` decides before each start who needs it. `durable` waits
    until the files are on disk. Raises TargetError.
    """
    with target_errors(data_directory, "cannot create the folder"):
        data_directory.mkdir(0o700)
        account.take(data_directory)
    password_file = data_directory.with_name("password")
    try:
        write_private(password_file, f"{password}\n", account)
        arguments = [
            # two separate arguments: a sweep recognises a server by the folder among its arguments
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
        raise TargetError(f"cannot create a cluster with initdb {installation.version}: {_reason(output)}", hint=hint)


def _checksums(installation: Installation, extra: Sequence[str]) -> list[str]:
    # before 18, initdb has no option to disable checksums, because they are off by default
    if NO_CHECKSUMS not in extra:
        return ["--data-checksums", *extra]
    return list(extra) if installation.major >= 18 else [each for each in extra if each != NO_CHECKSUMS]


def initdb_refusal(argument: str) -> str | None:
    """Return why a plan must not give initdb this argument, or None."""
    if argument.startswith("--"):
        name = argument[2:].partition("=")[0]
        # getopt accepts every unambiguous prefix of an option's name
        return next((why for long, why in _REFUSED_LONG.items() if long.startswith(name)), None)
    for letter in argument[1:] if argument.startswith("-") else "":
        # getopt accepts several options in one argument
        if letter in _SHORT:
            return _REFUSED_LONG[_SHORT[letter]]
        if letter in _WITH_VALUE:
            break
    return None


def _reason(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    telling = [line for line in lines if "error:" in line or "FATAL:" in line or "DETAIL:" in line]
    return " | ".join(telling or lines[-5:]) or "it printed nothing"


class ClusterTemplate:
    """The cluster that is kept under one key; if it cannot be used, initdb takes its place."""

    def __init__(self, home: Home, key: str) -> None:
        # the files belong to the server's user, which may be another one next time
        self._folder = home.templates / f"{key}-{home.account.uid}"
        self._account: Account = home.account
        self._home = home

    def copy_to(self, data_directory: Path) -> bool:
        """Create `data_directory` as a copy; return False if there is no template or copying fails."""
        if not self._folder.is_dir():
            return False
        try:
            self._copy(self._folder, data_directory, durable=False)
        except TargetError:
            shutil.rmtree(data_directory, ignore_errors=True)
            return False
        return True

    def keep(self, data_directory: Path) -> None:
        """Keep a copy of a cluster that has just been created and never ran, unless another process has kept one."""
        partial = self._folder.with_name(f"{self._folder.name}.partial")
        lock: FileLock = self._home.lock(f"template-{self._folder.name}")
        try:
            ensure_folder(self._folder.parent)
            with target_errors(partial, "cannot lock"):
                lock.acquire(timeout=0)
        except (TargetError, Timeout):
            return
        try:
            # left by a run that was killed
            shutil.rmtree(partial, ignore_errors=True)
            self._copy(data_directory, partial, durable=True)
            partial.rename(self._folder)
        except (TargetError, OSError):
            shutil.rmtree(partial, ignore_errors=True)
        finally:
            lock.release()

    def _copy(self, source: Path, to: Path, *, durable: bool) -> None:
        with target_errors(to, "cannot create the folder"):
            to.mkdir(0o700)
            self._account.take(to)
        copy_tree(source, to, self._account, "auto", durable=durable)


_HEAD = "# pgdyno rewrites this file at every start\n"
_MAP = "pgdyno"
PASSWORD_FILE = "pgpass"  # noqa: S105 - its name
"""The file with the password for the primary, next to a standby's data directory."""


def write_access(data_directory: Path, account: Account, *, enters: bool = False) -> None:
    """Replace pg_hba.conf and pg_ident.conf of a cluster of `account`, which may enter it itself if it `enters`.

    Raises TargetError.
    """
    names = dict.fromkeys([_own_name(), *([account.name] if enters else [])])
    lines = [
        f"local all {USER} peer map={_MAP}",
        "local all,replication all scram-sha-256",
        "host all,replication all 127.0.0.1/32 scram-sha-256",
    ]
    mapped = [f'{_MAP} "{name.replace(chr(34), 2 * chr(34))}" {USER}' for name in names]
    for name, written in (("pg_hba.conf", lines), ("pg_ident.conf", mapped)):
        write_private(data_directory / name, _HEAD + "".join(f"{line}\n" for line in written), account)


def write_password_file(path: Path, password: str, account: Account) -> None:
    """Write a libpq password file that only `account` can read, for a program that runs as that user.

    Raises TargetError.
    """
    write_private(path, f"*:*:*:{USER}:{password}\n", account)


def _own_name() -> str:
    uid = os.geteuid()
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        # initdb refuses such a user as well
        raise TargetError(f"user {uid} has no name on this host", hint="add the user to /etc/passwd") from None
