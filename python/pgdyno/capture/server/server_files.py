"""The files to which a server logs: read through SQL, over SSH, or on this host, from any byte on."""

import asyncio
import fnmatch
import glob
import os
import re
import shlex
import threading
from collections.abc import Coroutine, Sequence
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any, LiteralString, NamedTuple, Protocol, TypeVar

import psycopg

from pgdyno.capture.server.server_session import CapturedServer, Connection
from pgdyno.errors import TargetError, UsageError
from pgdyno.plan.hosts import SshSpec
from pgdyno.remote import RemoteError
from pgdyno.targets.response_limits import limit_answers

PIECE_BYTES = 4 << 20
"""The most that is read at once, and so the memory that reading takes."""
ANSWER_S = 60.0


class FileState(NamedTuple):
    size: int
    inode: str
    """Stays when the file is renamed; the path where the inode is unknown."""


class LogFiles(Protocol):
    """Log files of one place, by their paths there."""

    def states(self) -> dict[str, FileState]:
        """Return the state of each file, the one written last at the end. Raises TargetError, UsageError."""

    def read(self, path: str, offset: int, length: int) -> bytes:
        """Return up to `length` bytes from `offset`; none beyond the end. Raises TargetError, UsageError."""

    def reconnect(self) -> None:
        """Open the connection again after a TargetError. Raises TargetError."""

    def close(self) -> None:
        """End the connection."""


_NAMES = "SELECT /* pgdyno */ name, size FROM pg_catalog.pg_ls_logdir() ORDER BY modification, name"
_READ = "SELECT /* pgdyno */ pg_catalog.pg_read_binary_file(%s, %s, %s, true)"


class SqlFiles:
    """Files in the server's `log_directory` with names of `pattern`, read through SQL."""

    def __init__(self, server: CapturedServer, directory: str, pattern: str) -> None:
        """Raise TargetError."""
        self._server, self._directory, self._pattern = server, directory.rstrip("/"), pattern
        self._connection: Connection = server.connect()

    def states(self) -> dict[str, FileState]:
        rows = self._ask("list the server's log files", _NAMES)
        found = {f"{self._directory}/{name}": size for name, size in rows if fnmatch.fnmatchcase(name, self._pattern)}
        return {path: FileState(int(size), path) for path, size in found.items()}

    def read(self, path: str, offset: int, length: int) -> bytes:
        ((content,),) = self._ask(f"read {path} through SQL", _READ, [path, offset, length], binary=True)
        return b"" if content is None else bytes(content)

    def reconnect(self) -> None:
        self.close()
        self._connection = self._server.connect()

    def close(self) -> None:
        self._connection.close()

    def _ask(
        self, doing: str, query: LiteralString, parameters: Sequence[object] = (), *, binary: bool = False
    ) -> list[tuple[Any, ...]]:
        try:
            with limit_answers(self._connection):
                return self._connection.execute(query, parameters, binary=binary).fetchall()
        except psycopg.Error as error:
            raise TargetError(f"cannot {doing}: {str(error).strip()}") from error


class LocalFiles:
    """Files on this host, by paths or patterns."""

    def __init__(self, patterns: Sequence[str]) -> None:
        self._patterns = patterns

    def states(self) -> dict[str, FileState]:
        found = []
        for pattern in self._patterns:
            # a name is taken as it is although it may contain brackets
            for name in [pattern] if os.path.exists(pattern) else glob.glob(pattern):  # noqa: PTH110, PTH207 - no error
                try:
                    stat = Path(name).stat()
                except FileNotFoundError:
                    continue
                except OSError as error:
                    raise _unreadable(name, error) from error
                found.append((stat.st_mtime_ns, name, FileState(stat.st_size, f"{stat.st_dev}:{stat.st_ino}")))
        return {name: state for _, name, state in sorted(found)}

    def read(self, path: str, offset: int, length: int) -> bytes:
        try:
            with Path(path).open("rb") as file:
                file.seek(offset)
                return file.read(length)
        except FileNotFoundError:
            return b""
        except OSError as error:
            raise _unreadable(path, error) from error

    def reconnect(self) -> None:
        pass

    def close(self) -> None:
        pass


def _unreadable(path: str, error: OSError) -> UsageError:
    return UsageError(f"cannot read {path}: {(error.strerror or str(error)).lower()}")


_T = TypeVar("_T")
_PLAIN = re.compile(r"[^\w./*?\[\]-]")


class SshFiles:
    """Files on another host, by paths or patterns, over one connection."""

    def __init__(self, spec: SshSpec, patterns: Sequence[str]) -> None:
        """Raise RemoteError."""
        self._spec = spec
        self._patterns = " ".join(_quote_pattern(each) for each in patterns)
        # keepalives are answered between two calls, and Ctrl-C does not interrupt a half-sent request
        self._stack = AsyncExitStack()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="log over ssh", daemon=True)
        self._thread.start()
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    def states(self) -> dict[str, FileState]:
        # a pattern without a file is no error: the next rotation may create it
        lines = self._run(f"stat -L -c '%Y %s %d:%i %n' -- {self._patterns} 2>/dev/null | sort -n").decode(
            errors="replace"
        )
        found = (line.split(" ", 3) for line in lines.splitlines())
        return {
            parts[3]: FileState(int(parts[1]), parts[2]) for parts in found if len(parts) == 4 and parts[1].isdigit()
        }

    def read(self, path: str, offset: int, length: int) -> bytes:
        name = shlex.quote(path)
        return self._run(f"[ ! -e {name} ] || tail -c +{offset + 1} -- {name} | head -c {length}")

    def reconnect(self) -> None:
        self._end()
        self._open()

    def close(self) -> None:
        with suppress(TargetError):
            self._end()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(ANSWER_S)
        if not self._thread.is_alive():
            self._loop.close()

    def _open(self) -> None:
        # the SSH library loads slowly
        from pgdyno.remote.connect import connect_host

        self._stack = AsyncExitStack()
        self._connection = self._wait(self._stack.enter_async_context(connect_host(self._spec)))

    def _end(self) -> None:
        self._wait(self._stack.aclose())

    def _run(self, script: str) -> bytes:
        """Return the output of the shell's `script`. Raises RemoteError."""
        return self._wait(self._output(script))

    async def _output(self, script: str) -> bytes:
        from pgdyno.remote.connect import DEVNULL, SshError

        try:
            done = await self._connection.run(
                # independent of the user's login shell
                f"exec sh -c {shlex.quote(script)}",
                stdin=DEVNULL,
                encoding=None,
                request_pty=False,
            )
        except (SshError, OSError) as error:
            raise RemoteError(f"lost the connection to {self._spec.host}: {error}", passing=True) from error
        if done.exit_status is None:
            raise RemoteError(f"lost the connection to {self._spec.host}", passing=True)
        out, errors = (each if isinstance(each, bytes) else b"" for each in (done.stdout, done.stderr))
        said = errors.decode(errors="replace").strip()
        if said:
            raise UsageError(f"cannot read the log on {self._spec.host}: {said.splitlines()[-1]}")
        return out

    def _wait(self, work: Coroutine[object, object, _T]) -> _T:
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result(ANSWER_S)
        except TimeoutError as error:
            future.cancel()
            raise RemoteError(f"{self._spec.host} does not answer", passing=True) from error


def _quote_pattern(pattern: str) -> str:
    home = "~/" if pattern.startswith("~/") else ""
    return home + _PLAIN.sub(lambda found: "\\" + found[0], pattern.removeprefix(home))
