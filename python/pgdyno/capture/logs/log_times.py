"""The times in a log, as PostgreSQL writes them in the time zone of `log_timezone`."""

import re
from collections.abc import Sequence

from pgdyno.store.duckdb_session import session

_ZONES_H = {
    "UTC": 0, "GMT": 0, "Z": 0, "WET": 0, "WAT": 1, "BST": 1, "WEST": 1, "CET": 1, "CEST": 2, "CAT": 2, "EET": 2,
    "EEST": 3, "EAT": 3, "MSK": 3, "SAST": 2, "PKT": 5, "IST": 5.5, "IDT": 6.5, "WIB": 7, "WITA": 8, "HKT": 8, "SGT": 8,
    "WIT": 9, "JST": 9, "KST": 9, "AWST": 8, "ACST": 9.5, "ACDT": 10.5, "AEST": 10, "AEDT": 11, "NZST": 12, "NZDT": 13,
    "NST": -3.5, "NDT": -2.5, "AST": -4, "ADT": -3, "EST": -5, "EDT": -4, "CST": -6, "CDT": -5, "MST": -7, "MDT": -6,
    "PST": -8, "PDT": -7, "AKST": -9, "AKDT": -8, "HST": -10, "HDT": -9,
}  # fmt: skip
"""Hours that abbreviations are ahead of UTC, in pairs where clocks change; others count as UTC, which shifts all times
alike, and so does one that several countries use: IST is India's, and IDT, which Israel has with it, an hour later.
"""


def epoch_us(stamp: str) -> str:
    """Return SQL that turns a logged time into µs since 1970, and other text into NULL."""
    zone = f"substr({stamp}, CASE WHEN {stamp}[20] = '.' THEN 25 ELSE 21 END)"
    # one literal: DuckDB binds a CASE of as many branches again for each block
    known = ", ".join(f"{name}={round(hours * 3600)}" for name, hours in _ZONES_H.items())
    numeric = (
        f"coalesce(TRY_CAST(({zone})[:3] AS INTEGER), 0) * 3600"
        f" + CASE WHEN length({zone}) > 4 THEN coalesce(TRY_CAST(({zone})[1] || right({zone}, 2) AS INTEGER), 0) * 60"
        " ELSE 0 END"
    )
    return f"""
        CASE WHEN {stamp}[5] = '-' THEN
            epoch_us(TRY_CAST({stamp}[:CASE WHEN {stamp}[20] = '.' THEN 23 ELSE 19 END] AS TIMESTAMP))
            - coalesce(CAST('{{{known}}}' AS MAP(VARCHAR, BIGINT))[{zone}], {numeric}) * 1000000
        ELSE round(TRY_CAST({stamp} AS DOUBLE) * 1e6)::BIGINT END
    """


def epochs_us(stamps: Sequence[str]) -> list[int]:
    """Return logged times in µs since 1970; 0 for a text that is not a time."""
    query = f"SELECT coalesce({epoch_us('stamp')}, 0)::BIGINT FROM (SELECT unnest($stamps::VARCHAR[]) AS stamp)"
    with session() as connection:
        return [us for (us,) in connection.execute(query, {"stamps": list(stamps)}).fetchall()]


_WRITTEN = re.compile(r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d)(:\d\d)?(\.\d{3})?\s*(\S*)")


def logged_time_us(text: str) -> int:
    """Return a time copied from a log, or written like one, in µs since 1970; UTC without a zone. Raises ValueError."""
    found = _WRITTEN.fullmatch(text.strip())
    if found is not None:
        date, minutes, seconds, fraction, zone = found.groups()
        (us,) = epochs_us([f"{date} {minutes}{seconds or ':00'}{fraction or ''} {zone or 'UTC'}"])
        if us:
            return us
    raise ValueError(f"{text!r} is not a time; write it as the log does, such as 2026-03-01 09:00:00 CET")
