"""The folder of a capture, its plan and README, damaged ones, and the arguments of `pgdyno capture`."""

import json
from pathlib import Path

import pytest

from pgdyno.capture.folder import new_folder, plan, read_capture, readme, refuse_existing, write_capture
from pgdyno.capture.left_out import lacks
from pgdyno.capture.server import server_check
from pgdyno.capture.server.server_settings import Setting
from pgdyno.commands.own_load.capture import CaptureCommand
from pgdyno.errors import PgdynoError, StoreError, UsageError
from pgdyno.messages import Message
from pgdyno.plan import load_plan
from pgdyno.plan.values import LONGEST_NAME
from pgdyno.records.base import KeptMessage
from pgdyno.records.capture import Capture, Ended, LeftOut, Source, StatementClass, Values, Wait
from pgdyno.report.translation import Language, translate, use_language
from tests.unit import capture_sample
from tests.unit.capture_sample import capture


def written(folder: Path, found: Capture) -> Path:
    new_folder(folder)
    if found.source is Source.LOG:
        capture_sample.write_capture(folder)
    write_capture(folder, found)
    return folder


@pytest.mark.parametrize("database", ["shop", 'my "shop"\'s\\', "店", None])
def test_its_plan_replays_it_on_a_copy_and_never_on_the_captured_server(tmp_path: Path, database: str | None) -> None:
    found = load_plan(written(tmp_path / "my shop!", capture(database=database)) / "plan.toml").plan
    target = found.target["copy"].model_dump()
    assert (found.name, found.workload.capture, target["database"]) == ("my-shop", ".", database or "DATABASE")
    assert "host=COPY" in target["dsn"]
    # an ordinary role may not run CHECKPOINT
    assert not found.reset.checkpoint


def test_the_readme_says_what_was_seen_and_what_was_not() -> None:
    text = readme(
        capture(
            database="shop|x",
            waits=[Wait(wait="Lock:tuple", sessions=1.5)],
            left_out=[LeftOut(reason="copy-data", count=1180, first="a.csv:7")],
            ended=Ended.INTERRUPTED,
            notes=[KeptMessage.from_message(Message("log-x", "log_lock_waits = off: it has no lock waits"))],
            statements=[StatementClass(text="SELECT '`|\x1b[31m'\nFROM t", calls=3, total_us=3000.0)],
        )
    )
    for expected in (
        "# Capture of shop\\|x",
        "| 1,180 | COPY from the client: a log does not have its rows | a.csv:7 |",
        "The capture was interrupted.",
        "- log_lock_waits = off: it has no lock waits",
        "| 1.50 | Lock:tuple |",
        "| 100.0 % | 3 | 1.00 ms |  |  |  | `SELECT ''\\|",
        "Restore the database as it was when the capture began, 2026-01-02 00:00:00 UTC",
    ):
        assert expected in text
    assert "\x1b" not in text


def test_what_a_capture_lacks_is_said_in_the_language_of_a_report() -> None:
    note = Message("log-lacks", "{setting} = {value}: {missing}", setting="log_lock_waits", value="off", missing="x")
    found = capture(
        left_out=[
            LeftOut(reason="copy-data", count=1180),
            LeftOut(reason="background", count=7),
            LeftOut(reason="of-later", count=2),
        ],
        notes=[KeptMessage.from_message(note)],
    )
    assert [str(each) for each in lacks(found)] == [
        "capture: COPY from the client: a log does not have its rows (1,180)",
        "capture: of-later (2)",
        "capture: log_lock_waits = off: x",
    ]
    with use_language(Language.KOREAN):
        assert translate(lacks(found)[0]) == "캡처: 클라이언트의 COPY: 로그에는 그 행이 없습니다 (1,180)"


def test_a_capture_of_statistics_has_no_plan_to_replay(tmp_path: Path) -> None:
    found = capture(source=Source.STATEMENTS, values=Values.UNKNOWN)
    folder = written(tmp_path / "shop", found)
    assert {path.name for path in folder.iterdir()} == {"capture.json", "README.md"}
    assert "pgdyno synthesise" in (folder / "README.md").read_text()
    assert "Replay it" not in (folder / "README.md").read_text()
    assert read_capture(folder) == found


def test_a_capture_is_written_into_an_empty_folder_and_read_as_it_was(tmp_path: Path) -> None:
    refuse_existing(tmp_path / "new")
    refuse_existing(tmp_path)
    (tmp_path / "a").touch()
    for each in (tmp_path, tmp_path / "a"):
        with pytest.raises(UsageError, match="exists and is not empty"):
            refuse_existing(each)
    found = capture(database="shop", ended=Ended.LIMIT, notes=[KeptMessage.from_message(Message("a", "note {n}", n=1))])
    folder = written(tmp_path / "shop", found)
    assert read_capture(folder) == found
    assert {path.name for path in folder.iterdir()} == {"capture.json", "capture.parquet", "plan.toml", "README.md"}
    assert folder.stat().st_mode & 0o777 == 0o700


def test_a_damaged_or_newer_capture_is_an_error(tmp_path: Path) -> None:
    file = written(tmp_path / "shop", capture()) / "capture.json"
    whole = file.read_text()
    for change, kind, message in (
        (lambda whole: whole[:100], StoreError, "it is not JSON"),
        (lambda whole: json.dumps(json.loads(whole) | {"format": 2}), StoreError,
         "it is of format 2, and this pgdyno reads up to 1"),
        (lambda whole: json.dumps(json.loads(whole) | {"calls": "many"}), StoreError,
         "calls: input should be a valid integer"),
        (lambda _: "[1]", StoreError, "it is not an object"),
    ):  # fmt: skip
        file.write_text(change(whole))
        with pytest.raises(kind, match=message) as caught:
            read_capture(file.parent)
        assert "format" not in message or caught.value.hint == "use a newer pgdyno"


def test_a_folder_without_its_files_is_an_error(tmp_path: Path) -> None:
    folder = written(tmp_path / "shop", capture())
    (folder / "capture.parquet").unlink()
    with pytest.raises(StoreError, match=r"it has no capture\.parquet"):
        read_capture(folder)
    (folder / "capture.json").unlink()
    with pytest.raises(UsageError, match=r"it has no capture\.json"):
        read_capture(folder)
    (folder / "capture.json").symlink_to("/etc/passwd")
    with pytest.raises(PgdynoError, match="symbolic link"):
        read_capture(folder)


def test_the_name_of_a_plan_is_one() -> None:
    assert 'name = "capture"' in plan("…", capture())
    assert 'name = "monday-s-load"' in plan("_monday's load", capture())
    assert f'name = "{"m" * LONGEST_NAME}"' in plan("m" * 100, capture())


# ---- arguments, and what a server must log ----


def test_a_capture_of_nothing_is_an_error(tmp_path: Path) -> None:
    for is_statements, message, hint in (
        (True, "--statements needs a server", "name one, such as"),
        (False, "nothing to capture", "name a server, such as"),
    ):
        with pytest.raises(UsageError, match=message) as raised:
            CaptureCommand(tmp_path / "capture", statements=is_statements, quiet=True)()
        assert raised.value.hint is not None
        assert raised.value.hint.startswith(hint)
        assert ("--log" in raised.value.hint) is not is_statements


def test_a_capture_needs_english_messages() -> None:
    for value, is_english in (
        *((name, True) for name in ("", "C", "POSIX", "C.UTF-8", "en_GB.UTF-8", "en-US", "English_United States.1252")),
        *((name, False) for name in ("de_DE.UTF-8", "German_Germany.1252", "ca_ES", "es-ES", "eno")),
    ):
        shown = {"log_min_duration_statement": "0", "log_destination": "csvlog", "logging_collector": "on"}
        settings = {name: Setting(name, value, value) for name, value in {**shown, "lc_messages": value}.items()}
        found = {lack.setting.name: lack for lack in server_check.lacks(settings, files_given=False)}
        assert ("lc_messages" not in found) == is_english
        if not is_english:
            assert found["lc_messages"].is_required
            assert found["lc_messages"].wanted == "C"
            assert str(found["lc_messages"].message) == f"lc_messages = {value}: pgdyno reads English messages only"
