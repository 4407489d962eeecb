"""Counts the instructions of a load's statements in a server that runs under Valgrind. See docs/design/counting.md.

The server writes a file after each ReadyForQuery, which ends the answer to a statement in each protocol. So one session
tells the cost of every statement, and that of its start is in the first file.
"""

import os
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Protocol

from pgdyno.errors import PgdynoError, TargetError
from pgdyno.instructions.callgrind import Dump, read_dump
from pgdyno.instructions.count_error import CountError
from pgdyno.instructions.perf_stat import instructions_of
from pgdyno.targets import Server
from pgdyno.targets.cluster.postmaster import explain_whole, find_postmaster, read_log

WARMUP = 20
"""Transactions before the counted ones: caches of the session fill, and prepared statements get their generic plan."""
WARMUP_WITH_CALLERS = 8
"""Likewise, where each transaction takes ten times as long."""
DEEPEST_STACK = 100
"""Frames by which calls of a function are told apart."""
FLUSHED = 1.5
"""The functions of an execution whose flush of statistics costs this much more than the least are left out."""
MOST_LINES = 3
_CRASH = ("Process terminating", "was terminated by signal", "unrecognised instruction")
"""In the log of a server of which a process crashed."""
_EXIT_S = 120.0
_FOLDER = "counts"


@dataclass(frozen=True, slots=True)
class Counted:
    """What one session executed, per transaction: means over the counted ones."""

    instructions: float
    statements: tuple[float, ...]
    """By statement, in the order of the script; empty if transactions do not have the same number of them."""
    functions: Counter[str]
    """Instructions of each function itself, rounded; of each stack if callers were asked for."""


class CountingServer(Protocol):
    """A server in which instructions are counted."""

    def count(self, load: Callable[[int], None], transactions: int) -> Counted:
        """Return what `load` costs, which runs as many transactions in one session as its argument says.

        Counts `transactions` of them, after those of the warm-up. Raises CountError, and whatever `load` raises.
        """


class _UnderValgrind:
    def __init__(self, folder: Path, warmup: int) -> None:
        self._folder = folder
        self._warmup = warmup

    def count(self, load: Callable[[int], None], transactions: int) -> Counted:
        for path in self._folder.iterdir():
            path.unlink()
        load(self._warmup + transactions)
        return _evaluate(_dumps_of_load(self._folder, self._warmup + transactions), self._warmup, transactions)


class _ByPerf:
    """Counts by the processor: two loads, so that the start of a session cancels."""

    def __init__(self, server: Server, warmup: int) -> None:
        self._server = server
        self._warmup = warmup

    def count(self, load: Callable[[int], None], transactions: int) -> Counted:
        postmaster = find_postmaster(self._server.data_directory)
        if postmaster is None:
            raise CountError("the server ended")
        short = instructions_of(postmaster.pid, lambda: load(self._warmup))
        long = instructions_of(postmaster.pid, lambda: load(self._warmup + transactions))
        return Counted((long - short) / transactions, (), Counter())


def counter_of(asked: str) -> str:
    """Return `valgrind` or `perf` for auto, valgrind or perf. Raises CountError if Valgrind is missing."""
    if asked == "valgrind" or (asked == "auto" and (shutil.which("valgrind") or not shutil.which("perf"))):
        valgrind_command(Path(), callers=False)
        return "valgrind"
    return "perf"


@contextmanager
def counting_server(
    server: Server, counter: str = "valgrind", *, callers: bool = False, warmup: int = WARMUP
) -> Iterator[CountingServer]:
    """Restart `server` under Valgrind for the block, and as usual after it; with `callers`, functions are stacks.

    With the counter `perf`, which knows no functions, `server` keeps running.

    After an exception the server is stopped. Raises CountError, TargetError.
    """
    machine = server.own_instance("count the instructions of the server")
    if counter == "perf":
        yield _ByPerf(server, warmup)
        return
    folder = machine.log_path.parent / _FOLDER
    command = valgrind_command(folder, callers=callers)
    _make_folder(folder, machine.data_directory)
    offset = server.log_size()
    machine.wrap(command)
    try:
        server.stop()
        server.start()
        yield _UnderValgrind(folder, WARMUP_WITH_CALLERS if callers else warmup)
        if not server.alive():
            raise CountError("the server ended")
    except PgdynoError as error:
        log = read_log(machine.log_path, offset)
        crashed = [line for line in log.splitlines() if any(words in line for words in _CRASH)]
        said = "; ".join(crashed[:MOST_LINES]) if server.alive() else explain_whole(log)
        if said:
            raise CountError(f"{error.message}; under Valgrind: {said}", hint=error.hint) from error
        raise
    finally:
        machine.wrap(())
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)
    server.start()


def valgrind_command(folder: Path, *, callers: bool) -> list[str]:
    """Return the command that a server is started by. Raises CountError without Valgrind."""
    programs = {name: shutil.which(name) for name in ("setarch", "valgrind")}
    for name, path in programs.items():
        if path is None:
            package = "util-linux" if name == "setarch" else "valgrind"
            raise CountError(f"{name} is not installed", hint=f"install the package {package}: apt install {package}")
    return [
        *(str(programs["setarch"]), "-R", str(programs["valgrind"]), "--tool=callgrind", "--vgdb=no"),
        # a backend is in PostgresMain from the start of its session to the end
        *("--toggle-collect=PostgresMain", "--dump-after=ReadyForQuery", "--dump-line=no", "--separate-recs=1"),
        *([f"--separate-callers={DEEPEST_STACK}"] if callers else []),
        f"--callgrind-out-file={folder}/out.%p",
    ]


def _make_folder(folder: Path, data_directory: Path) -> None:
    """Make the folder that the server's user writes to. Raises TargetError."""
    try:
        folder.mkdir(0o700)
        owner = data_directory.stat()
        if owner.st_uid != os.geteuid():
            os.chown(folder, owner.st_uid, owner.st_gid)
    except OSError as error:
        raise TargetError(f"cannot create the folder {folder}: {(error.strerror or str(error)).lower()}") from error


def _dumps_of_load(folder: Path, transactions: int) -> list[Path]:
    """Return the dumps of the load's backend after that of its start. Raises CountError."""
    # other sessions, such as that in which the engine looks at the server, have fewer
    parts = Counter(path.name.split(".")[1] for path in folder.glob("out.*.*"))
    process = max(parts, key=lambda each: parts[each], default="")
    _wait_for_end(process)
    numbered = sorted((int(path.suffix[1:]), path) for path in folder.glob(f"out.{process}.*"))
    if len(numbered) <= transactions:
        raise CountError(
            f"Valgrind wrote {len(numbered)} files for {transactions} transactions",
            hint="the server's program must have the symbols PostgresMain and ReadyForQuery, as those of packages do",
        )
    return [path for _, path in numbered[1:]]


def _wait_for_end(process: str) -> None:
    """Wait until a backend, whose client is gone, has written its last file and ended. Raises CountError."""
    end = time.monotonic() + _EXIT_S
    while process and Path(f"/proc/{process}").exists():
        if time.monotonic() > end:
            raise CountError(f"the backend {process} did not end within {_EXIT_S:.0f} s")
        time.sleep(0.02)


def _evaluate(paths: Sequence[Path], warmup: int, transactions: int) -> Counted:
    """Return the figures of dumps without the first `warmup` transactions. Raises CountError."""
    everything = warmup + transactions
    is_even = len(paths) % everything == 0
    statements = len(paths) // everything if is_even else 1
    # a script with branches has no fixed number of statements: its mean one is taken as often as it has them
    weight = 1.0 if is_even else len(paths) / everything
    kept = paths[round(len(paths) * warmup / everything) :]
    dumps = [_read(path) for path in kept]
    means, functions = [], Counter[str]()
    for at in range(statements):
        executed = dumps[at::statements]
        # when a session sends its statistics depends on the time alone
        least = min(each.flush for each in executed)
        means.append(fmean(each.total - each.flush + least for each in executed))
        usual = [each for each in executed if each.flush <= FLUSHED * least]
        summed = Counter[str]()
        for each in usual:
            summed.update(each.functions)
        for name, count in summed.items():
            functions[name] += round(weight * count / len(usual))
    total = weight * sum(means)
    return Counted(total, tuple(means) if is_even else (), functions)


def _read(path: Path) -> Dump:
    try:
        with path.open(encoding="utf-8", errors="replace") as lines:
            return read_dump(lines)
    except OSError as error:
        raise CountError(f"cannot read {path}: {(error.strerror or str(error)).lower()}") from error
    except ValueError as error:
        raise CountError(f"cannot read Valgrind's file {path.name}: {error}", hint="is the disk full?") from error
