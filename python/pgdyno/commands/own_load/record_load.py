"""What `pgdyno capture` does: it captures a load into a folder, and prints what that has."""

from __future__ import annotations

import shlex
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from pgdyno.capture.folder import ENDINGS, PLAN_FILE, new_folder, refuse_existing, write_capture
from pgdyno.capture.left_out import SERVER_UNKNOWN, sentence
from pgdyno.capture.logs.capture_logs import Options, Progress, capture_logs
from pgdyno.capture.logs.log_times import logged_time_us
from pgdyno.capture.parser import require_parser
from pgdyno.capture.proxy.capture_proxy import capture_records
from pgdyno.capture.proxy.proxy_process import ProxyProcess
from pgdyno.capture.server.log_copy import LogCopy
from pgdyno.capture.server.recording import Recording
from pgdyno.capture.server.server_check import ServerLog, check_server_log
from pgdyno.capture.server.server_files import LocalFiles, LogFiles, SqlFiles, SshFiles
from pgdyno.capture.server.server_session import CapturedServer, foreign_keys, reach_server, sequence_positions
from pgdyno.capture.server.statement_statistics import StatementStatistics
from pgdyno.capture.server.wait_samples import WaitSamples
from pgdyno.commands.support.password import password_prompt
from pgdyno.console import Console
from pgdyno.errors import UsageError
from pgdyno.messages import message_json
from pgdyno.plan.hosts import SshSpec, ssh_host
from pgdyno.programs import find_engine
from pgdyno.records.base import KeptMessage
from pgdyno.records.capture import Capture, Source, Values
from pgdyno.safe_output import print_json
from pgdyno.store.safe_files import store_errors
from pgdyno.units import duration_words, format_size, parse_bytes, parse_duration_s, quantity

if TYPE_CHECKING:
    from pgdyno.commands.own_load.capture import CaptureCommand

FORMAT = 1
"""The version of the JSON output."""
DEFAULT_TIME = "10m"
_PRINTED = {"source", "values", "database", "span_us", "calls", "sessions", "ended"}
"""Fields of a capture that --json prints as they are."""
PROGRESS_S = 10.0
SPOOL = ".log"
"""The folder of copied logs, while a capture lasts."""
_T = TypeVar("_T")


def capture(wanted: CaptureCommand) -> None:
    """Capture a load into the folder, and print what it has.

    Raises UsageError, TargetError, StoreError; KeyboardInterrupt after an interrupted capture was written.
    """
    _check(wanted)
    refuse_existing(wanted.folder)
    if wanted.dsn is None:
        _of_files(wanted)
        return
    server = reach_server(wanted.dsn, password_prompt())
    if wanted.statements:
        _of_statistics(wanted, server)
    elif wanted.proxy is not None:
        _of_proxy(wanted, wanted.dsn, wanted.proxy, server)
    else:
        _of_server_log(wanted, server)


def _check(wanted: CaptureCommand) -> None:
    """Raise UsageError for arguments that do not go together, and for invalid ones."""
    of_server, name_it = wanted.dsn is not None, 'name one, such as "host=db dbname=shop"'
    for wrong, message, hint in (
        (not of_server and wanted.time is not None, "--for needs a server", name_it),
        (not of_server and wanted.statements, "--statements needs a server", name_it),
        (
            not of_server and not wanted.logs,
            "nothing to capture: neither a server nor a log file is named",
            'name a server, such as "host=db dbname=shop", or log files with --log',
        ),
        (of_server and wanted.database, "--database chooses from log files", "put dbname into the connection string"),
        (
            of_server and (wanted.from_time or wanted.to_time),
            "--from and --to choose from log files",
            "remove them, or the server",
        ),
        (not of_server and wanted.proxy, "--proxy needs the server that it connects to", name_it),
        (wanted.proxy_tls and not wanted.proxy, "--proxy-tls is for a proxy", "remove it, or add --proxy HOST:PORT"),
        *(
            (wanted.proxy and given, f"{option} is for logs, and a proxy reads none", f"remove {option}")
            for option, given in (("--log", wanted.log), ("--ssh", wanted.ssh), ("--prefix", wanted.prefix))
        ),
        *(
            (wanted.statements and given, f"{option} is for logs, and --statements reads none", f"remove {option}")
            for option, given in wanted.of_logs.items()
        ),
    ):
        if wrong:
            raise UsageError(message, hint=hint)
    if not wanted.statements:
        require_parser()
    _most_bytes(wanted)
    from_us, to_us = _span_us(wanted)
    if from_us is not None and to_us is not None and from_us >= to_us:
        raise UsageError("--from: the time is not before that of --to")
    if _span_s(wanted) <= 0:
        raise UsageError("--for: the time must be longer than 0 s")


def _span_s(wanted: CaptureCommand) -> float:
    return _parse_option("--for", parse_duration_s, wanted.time or DEFAULT_TIME)


def _span_us(wanted: CaptureCommand) -> tuple[int | None, int | None]:
    """Return --from and --to in µs since 1970. Raises UsageError."""
    first, last = (
        None if text is None else _parse_option(option, logged_time_us, text)
        for option, text in (("--from", wanted.from_time), ("--to", wanted.to_time))
    )
    return first, last


def _most_bytes(wanted: CaptureCommand) -> int:
    return _parse_option("--max-size", parse_bytes, wanted.max_size)


def _parse_option(option: str, parse: Callable[[str], _T], text: str) -> _T:
    try:
        return parse(text)
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from error


def _ssh(text: str) -> SshSpec:
    """Return how to reach `[user@]host[:port]`. Raises UsageError."""
    try:
        return ssh_host(text)
    except ValueError as error:
        raise UsageError(f"--ssh: {text!r} is not a host", hint="write [USER@]HOST[:PORT]") from error


def _of_files(wanted: CaptureCommand) -> None:
    say = _progress(wanted)
    with ExitStack() as stack:
        if wanted.ssh is None:
            files: LogFiles = LocalFiles(wanted.logs)
            for pattern in wanted.logs:
                if not LocalFiles([pattern]).states():
                    raise UsageError(f"no file matches {pattern}")
        else:
            files = stack.enter_context(closing(SshFiles(_ssh(wanted.ssh), wanted.logs)))
        states = files.states()
        if not states:
            raise UsageError(f"no file on {wanted.ssh} matches {' or '.join(wanted.logs)}")
        paths = [Path(path) for path in states]
        spool = stack.enter_context(_folder(wanted.folder))
        if wanted.ssh is not None:
            # links give a file several names, and it is copied once
            total = sum({each.inode: each.size for each in states.values()}.values())
            if total > _most_bytes(wanted):
                message = f"the files total {format_size(total)}, more than --max-size {wanted.max_size}"
                raise UsageError(message, hint="raise --max-size")
            copy = LogCopy(files, spool, _most_bytes(wanted))
            say(f"copying {format_size(total)} of log from {wanted.ssh}")
            copy.step(last=True)
            paths = copy.copies
        found = capture_logs(paths, wanted.folder, _options(wanted), _shares(say))
        _write(wanted, found.model_copy(update={"notes": [*found.notes, KeptMessage.from_message(SERVER_UNKNOWN)]}))


def _of_server_log(wanted: CaptureCommand, server: CapturedServer) -> None:
    log = check_server_log(server, through_sql=wanted.ssh is None, files_given=bool(wanted.logs))
    say = _progress(wanted)
    with ExitStack() as stack:
        files = stack.enter_context(closing(_log_files(wanted, server, log)))
        if not files.states():
            raise UsageError(
                f"no log file on {wanted.ssh or 'this host'} matches {' or '.join(wanted.logs) or log.path}"
            )
        copy = LogCopy(files, stack.enter_context(_folder(wanted.folder)), _most_bytes(wanted))
        samples = stack.enter_context(closing(WaitSamples(server)))
        recording = Recording(copy, samples, _span_s(wanted))
        sequences = sequence_positions(server)

        def write() -> None:
            if not copy.copies:
                raise UsageError("the server logged nothing meanwhile", hint="capture while the application runs")
            options = _options(wanted, prefix=log.prefix, database=server.database)
            say(f"reading {copy.progress()}")
            found = capture_logs(copy.copies, wanted.folder, options, _shares(say))
            notes = [*log.notes, *copy.notes(), *samples.notes(), *recording.notes()]
            update = {
                "server_version": server.version,
                "server": server.identity,
                "sequences": sequences,
                "waits": samples.waits(),
                "ended": recording.ended,
                # the copies are removed, and their lines are not those of the server's files
                "left_out": [each.model_copy(update={"first": None}) for each in found.left_out],
                "notes": [*found.notes, *map(KeptMessage.from_message, notes)],
            }
            _write(wanted, found.model_copy(update=update))

        _record(recording, lambda: f"the server logs every statement ({log.statements}) as {log.format}", say, write)


def _of_proxy(wanted: CaptureCommand, dsn: str, listen: str, server: CapturedServer) -> None:
    say = _progress(wanted)
    options = _options(wanted, database=server.database)
    given = [f"--proxy-tls={wanted.proxy_tls}"] if wanted.proxy_tls is not None else []
    if options.values is Values.KEPT:
        given.append("--record-copy")
    with ExitStack() as stack:
        spool = stack.enter_context(_folder(wanted.folder))
        with store_errors("write", spool, "--into"):
            spool.mkdir(mode=0o700)
        records = spool / "records.jsonl"
        proxy = stack.enter_context(
            closing(ProxyProcess(find_engine(), listen, dsn, records, _most_bytes(wanted), given))
        )
        samples = stack.enter_context(closing(WaitSamples(server)))
        recording = Recording(proxy, samples, _span_s(wanted))
        references = foreign_keys(server)

        def write() -> None:
            found = capture_records(records, wanted.folder, options, _shares(say))
            notes = [*proxy.notes(), *samples.notes()]
            update = {
                "server_version": server.version,
                "server": server.identity,
                "references": references,
                "waits": samples.waits(),
                "ended": recording.ended,
                "left_out": [each.model_copy(update={"first": None}) for each in found.left_out],
                "notes": [*found.notes, *map(KeptMessage.from_message, notes)],
            }
            _write(wanted, found.model_copy(update=update))

        _record(recording, lambda: f"connect applications to {proxy.address}", say, write, hurry=proxy.hurry)


def _log_files(wanted: CaptureCommand, server: CapturedServer, log: ServerLog) -> LogFiles:
    if wanted.ssh is not None:
        return SshFiles(_ssh(wanted.ssh), wanted.logs or [log.path])
    return LocalFiles(wanted.logs) if wanted.logs else SqlFiles(server, log.directory, log.pattern)


def _of_statistics(wanted: CaptureCommand, server: CapturedServer) -> None:
    say = _progress(wanted)
    with ExitStack() as stack:
        statistics = stack.enter_context(closing(StatementStatistics(server)))
        stack.enter_context(_folder(wanted.folder))
        samples = stack.enter_context(closing(WaitSamples(server)))
        recording = Recording(statistics, samples, _span_s(wanted))

        def write() -> None:
            classes, left_out = statistics.classes()
            notes = [*samples.notes(), *recording.notes()]
            found = Capture(
                source=Source.STATEMENTS,
                values=Values.UNKNOWN,
                database=server.database,
                server_version=server.version,
                server=server.identity,
                began=statistics.began,
                span_us=round((statistics.ended - statistics.began).total_seconds() * 1e6),
                most_sessions=samples.most_sessions,
                transactions=max(statistics.transactions - samples.transactions, 0),
                calls=sum(each.calls for each in classes),
                statements=classes,
                waits=samples.waits(),
                left_out=left_out,
                ended=recording.ended,
                notes=[KeptMessage.from_message(note) for note in notes],
            )
            _write(wanted, found)

        _record(recording, lambda: "pg_stat_statements is read every 10 s", say, write)


def _record(
    recording: Recording,
    what: Callable[[], str],
    say: Callable[[str], None],
    write: Callable[[], None],
    hurry: Callable[[], None] | None = None,
) -> None:
    recording.start()
    say(f"{what()}; recording, Ctrl-C ends it")
    try:
        recording.wait(say)
    except (KeyboardInterrupt, SystemExit):
        # everything is done here: a signal whose exception is no longer handled would be sent again (signals_and_exit)
        say("interrupted: keeping what was recorded")
        if hurry is not None:
            say("open sessions may go on for 10 s; Ctrl-C ends idle ones now")
            hurry()
        try:
            recording.stop(say)
        except (KeyboardInterrupt, SystemExit):
            if hurry is None:
                raise
            hurry()
            recording.stop(say)
        write()
        raise
    write()


@contextmanager
def _folder(folder: Path) -> Iterator[Path]:
    """Create the folder of the capture, and yield a path in it for copied logs, which are removed after the block.

    If the block leaves nothing in the folder, it is removed. Raises UsageError, StoreError.
    """
    new_folder(folder)
    try:
        yield folder / SPOOL
    finally:
        # a log has values that the capture may not have
        shutil.rmtree(folder / SPOOL, ignore_errors=True)
        with suppress(OSError):
            folder.rmdir()


def _options(wanted: CaptureCommand, prefix: str | None = None, database: str | None = None) -> Options:
    return Options(
        values=Values(wanted.values or Values.ANONYMISED),
        prefix=wanted.prefix or prefix,
        database=wanted.database or database,
        user=wanted.user,
        application=wanted.application,
        only_reads=wanted.only_reads,
        span_us=_span_us(wanted),
    )


def _write(wanted: CaptureCommand, found: Capture) -> None:
    if found.calls == 0:
        hint = "capture while the application runs, and name its database"
        where = f" in the database {found.database}" if found.database is not None else ""
        raise UsageError(f"no statement to capture{where}", hint=hint)
    write_capture(wanted.folder, found)
    if wanted.json:
        print_json(_document(wanted.folder, found))
    else:
        _show(wanted.folder, found)


def _show(folder: Path, found: Capture) -> None:
    console = Console(soft_wrap=True)
    lost = sum(each.count for each in found.left_out)
    of_sessions = f" of {quantity(found.sessions, 'session')}" if found.sessions else ""
    has = f"{folder}/ has {quantity(found.calls, 'statement')}{of_sessions} in {duration_words(found.span_us / 1e6)}"
    console.print(f"{has}; left out: {lost:,}" if lost else has)
    width = len(f"{max((each.count for each in found.left_out), default=0):,}")
    for each in found.left_out:
        where = f" (first: {each.first})" if each.first else ""
        console.print(f"  {each.count:>{width},}  {sentence(each.reason)}{where}")
    if found.ended in ENDINGS:
        console.print(f"note: the capture {ENDINGS[found.ended]}")
    for note in found.notes:
        console.print(f"note: {note.message}")
    if found.values is Values.ANONYMISED:
        console.print("Values of text are replaced; --values kept keeps them.")
    if found.source is not Source.STATEMENTS:
        console.print(f"Replay it:     name a copy of the database in {folder / PLAN_FILE}, then")
        console.print(f"               pgdyno run {shlex.quote(str(folder / PLAN_FILE))}")
    console.print(f"Make a model:  pgdyno synthesise {shlex.quote(str(folder))}")


def _document(folder: Path, found: Capture) -> dict[str, object]:
    return {
        "format": FORMAT,
        "folder": str(folder),
        **found.model_dump(mode="json", include=_PRINTED),
        "classes": len(found.statements),
        "left_out": [
            {"reason": each.reason, "message": sentence(each.reason), "count": each.count, "first": each.first}
            for each in found.left_out
        ],
        "notes": [message_json(note.message) for note in found.notes],
    }


def _progress(wanted: CaptureCommand) -> Callable[[str], None]:
    console = Console(stderr=True, soft_wrap=True)

    def say(text: str) -> None:
        if not wanted.quiet:
            console.print(f"{time.strftime('%H:%M:%S')}  {text}")

    return say


def _shares(say: Callable[[str], None]) -> Callable[[Progress], None]:
    """Return what reports how much of a log was read, every ten seconds."""
    next_s = time.monotonic() + PROGRESS_S

    def report(progress: Progress) -> None:
        nonlocal next_s
        if time.monotonic() >= next_s and progress.total_bytes:
            next_s = time.monotonic() + PROGRESS_S
            share = progress.read_bytes / progress.total_bytes
            entries = quantity(progress.entries, "entry", "entries")
            say(f"read {100 * share:.0f} % of {format_size(progress.total_bytes)}, {entries}")

    return report
