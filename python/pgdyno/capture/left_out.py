"""What a capture could not keep: the reasons, and how often each occurred."""

from pathlib import Path

from pgdyno.messages import Message
from pgdyno.records.capture import Capture, LeftOut

FILE_BITS = 40
"""The place of an event is the number of its file and, in as many bits, the line."""
_REASONS = {
    message.id: message
    for message in (
        Message("copy-data", "COPY from the client: a log does not have its rows"),
        Message("copy-rows", "rows of COPY from the client: --values kept keeps up to 16 MiB of text of each COPY"),
        Message("copy-file", "COPY from or to a file or a program of the server"),
        Message(
            "credentials", "statements that may hold a password: roles, servers, subscriptions, connection strings"
        ),
        Message("code", "text in dollar quotes, such as DO and function bodies: it cannot be anonymised"),
        Message("not-anonymised", "text in unbalanced or unknown quotes: it cannot be anonymised"),
        Message("no-parameters", "the log does not have the values of the parameters"),
        Message(
            "not-whole",
            "statements whose text may be cut: at the end of a log of text, or where lines are shortened, mixed or lack"
            " their tab",
        ),
        Message("parameters-cut", "parameters may be cut: they end with '...' (log_parameter_max_length), or early"),
        Message("portal-fetch", "further rows of a statement that was executed before"),
        Message("function-call", "function calls of the old fast-path protocol"),
        Message("no-text", "times without a statement: log_duration without log_statement"),
        Message("other-classes", "statements of the class 'other statements': the capture has too many classes"),
        Message("began-before", "began before the capture"),
        Message("encoding", "text or parameters in another encoding than UTF-8"),
        Message("binary", "parameters in the binary format of a type that is not PostgreSQL's own"),
        Message("unreadable", "sessions whose messages do not follow the protocol: the rest of each"),
        Message("writes", "statements that write, or may write: --reads leaves them out"),
        Message("other-user", "statements of other users"),
        Message("other-application", "statements of other applications"),
        Message("other-database", "statements of another database, or of an unknown one"),
        Message("replication", "commands of replication connections"),
        Message("background", "lines of background processes"),
        Message("other-lines", "lines about anything but statements, such as warnings and temporary files"),
        Message("other-source", "lines of other containers, hosts, streams or programs in the same file"),
        Message("copies", "log files that begin like another one, which was read instead of them"),
        Message("cut", "incomplete lines: the log was cut"),
        Message("too-long", "entries longer than 16 MiB"),
        Message("nul-bytes", "lines with NUL bytes, which were removed"),
        Message("not-utf8", "lines that are not UTF-8: the bytes were replaced"),
        Message(
            "clock-set-back",
            "places where times go back: a clock was set back, or another log begins; later times were corrected",
        ),
        Message("statistics-dropped", "entries of pg_stat_statements that were evicted or reset: they lost counts"),
        Message("text-unknown", "statements whose text is no longer known, or is longer than 100,000 characters"),
        Message("text-hidden", "statements whose text the role may not see"),
        Message("text-with-constants", "commands with constants: pg_stat_statements does not replace them"),
        Message("no-begin", "transactions whose BEGIN is not in the log: it was cut, or the server logs a sample"),
    )
}
"""By id. The last four and `cut` concern lines or transactions, `copies` files, the others statements."""


def sentence(reason: str) -> str:
    """Return the sentence of the id `reason`; the id itself if a later version wrote it."""
    return str(_REASONS[reason]) if reason in _REASONS else reason


SERVER_UNKNOWN = Message(
    "capture-server-unknown",
    "log files do not name their server, so pgdyno cannot refuse to send the load to that server: name a copy",
)
_OUTSIDE = {
    "other-database", "other-user", "other-application", "writes", "replication", "background", "other-lines",
    "other-source", "copies",
}  # fmt: skip
"""Reasons that concern nothing of the load."""


def left_out_of(capture: Capture) -> list[Message]:
    return [
        Message(
            "capture-lacks", "capture: {reason} ({count:,})", reason=_REASONS.get(each.reason, each.reason),
            count=each.count,
        )
        for each in capture.left_out
        if each.reason not in _OUTSIDE
    ]  # fmt: skip


def lacks(capture: Capture) -> list[Message]:
    """Return what a capture does not have, for the report of a load that comes from it."""
    notes = (Message("capture-note", "capture: {note}", note=each.message) for each in capture.notes)
    return [*left_out_of(capture), *notes]


class Losses:
    """Counts what is left out, and keeps the first place of each reason."""

    def __init__(self, files: list[Path]) -> None:
        self.files = files
        self._order = {path: number for number, path in enumerate(files)}
        self._counts: dict[str, int] = {}
        self._first: dict[str, tuple[int, int, Path]] = {}

    def add(self, reason: str, path: Path, line: int, count: int = 1) -> None:
        place = (self._order[path], line, path)
        self._counts[reason] = self._counts.get(reason, 0) + count
        self._first[reason] = min(place, self._first.get(reason, place))

    def add_at(self, reason: str, place: int, count: int) -> None:
        """Count `count` of `reason`, the first of them at `place` of the events."""
        path, line = self._file_and_line(place)
        self.add(reason, path, line, count)

    def name_place(self, place: int) -> str:
        """Return the file and the line of a place of the events."""
        path, line = self._file_and_line(place)
        return f"{path}:{line}"

    def _file_and_line(self, place: int) -> tuple[Path, int]:
        number, line = divmod(place, 1 << FILE_BITS)
        return self.files[number], line

    def records(self) -> list[LeftOut]:
        """Return the reasons, the most frequent first."""
        return [
            LeftOut(reason=reason, count=count, first=f"{path}:{line}")
            for reason, count in sorted(self._counts.items(), key=lambda each: (-each[1], each[0]))
            for _, line, path in [self._first[reason]]
        ]
