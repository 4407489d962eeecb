"""The arguments of `pgdyno capture` that do not go together, and what the message advises."""

from __future__ import annotations

from pathlib import Path

import pytest

from pgdyno.commands.own_load.capture import Wanted, capture
from pgdyno.errors import UsageError


@pytest.mark.parametrize(
    ("is_statements", "message", "hint"),
    [
        (True, "--statements needs a server", "name one, such as"),
        (False, "nothing to capture", "name a server, such as"),
    ],
)
def test_a_capture_of_nothing_advises_only_what_its_options_allow(
    tmp_path: Path, is_statements: bool, message: str, hint: str
) -> None:
    wanted = Wanted(
        folder=tmp_path / "capture",
        dsn=None,
        logs=[],
        ssh=None,
        time=None,
        statements=is_statements,
        values=None,
        prefix=None,
        database=None,
        most="10GB",
        quiet=True,
        json=False,
    )
    with pytest.raises(UsageError, match=message) as raised:
        capture(wanted)
    assert raised.value.hint is not None
    assert raised.value.hint.startswith(hint)
    assert ("--log" in raised.value.hint) is not is_statements
