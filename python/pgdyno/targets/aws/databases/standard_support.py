"""How long Amazon supports a version of PostgreSQL without extra cost."""

from datetime import date

STANDARD_UNTIL = {
    "11": date(2024, 2, 29),
    "12": date(2025, 2, 28),
    "13": date(2026, 2, 28),
    "14": date(2027, 2, 28),
    "15": date(2028, 2, 29),
    "16": date(2029, 2, 28),
    "17": date(2030, 2, 28),
}
"""The last day of standard support at RDS and Aurora, by major version, from Amazon's release calendars."""
_FIRST_YEARS_DAYS = 2 * 365


def extended_year(version: str, today: date) -> str | None:
    """Return Amazon's name of the years of Extended Support in which `version` is; None before them."""
    until = STANDARD_UNTIL.get(version.partition(".")[0])
    if until is None or today <= until:
        return None
    return "Yr1-Yr2" if (today - until).days <= _FIRST_YEARS_DAYS else "Yr3"
