"""The arguments of `pgdyno capture` that do not go together, what messages advise, and what a server must log."""

from pathlib import Path

import pytest

from pgdyno.capture.server.server_check import lacks
from pgdyno.capture.server.server_settings import Setting
from pgdyno.commands.own_load.capture import CaptureCommand
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
    with pytest.raises(UsageError, match=message) as raised:
        CaptureCommand(tmp_path / "capture", statements=is_statements, quiet=True)()
    assert raised.value.hint is not None
    assert raised.value.hint.startswith(hint)
    assert ("--log" in raised.value.hint) is not is_statements


@pytest.mark.parametrize(
    ("value", "is_english"),
    [
        *((name, True) for name in ("", "C", "POSIX", "C.UTF-8", "en_GB.UTF-8", "en-US", "English_United States.1252")),
        *((name, False) for name in ("de_DE.UTF-8", "German_Germany.1252", "ca_ES", "es-ES", "eno")),
    ],
)
def test_a_capture_needs_english_messages(value: str, is_english: bool) -> None:
    shown = {
        "log_min_duration_statement": "0",
        "log_destination": "csvlog",
        "logging_collector": "on",
        "lc_messages": value,
    }
    settings = {name: Setting(name, value, value) for name, value in shown.items()}
    found = {lack.setting.name: lack for lack in lacks(settings, files_given=False)}
    assert ("lc_messages" not in found) == is_english
    if not is_english:
        assert found["lc_messages"].is_required
        assert found["lc_messages"].wanted == "C"
        assert str(found["lc_messages"].message) == f"lc_messages = {value}: pgdyno reads English messages only"
