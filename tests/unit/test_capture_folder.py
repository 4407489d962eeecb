"""The folder of a capture: its plan, its README, and what is said of a damaged one."""

import json
from pathlib import Path

import pytest

from pgdyno.capture.folder import new_folder, plan, read_capture, readme, refuse_existing, write_capture
from pgdyno.capture.left_out import lacks
from pgdyno.errors import PgdynoError, StoreError, UsageError
from pgdyno.messages import Message
from pgdyno.plan import load_plan
from pgdyno.plan.values import LONGEST_NAME
from pgdyno.records.base import KeptMessage
from pgdyno.records.capture import Capture, Ended, LeftOut, Source, StatementClass, Values, Wait
from pgdyno.report.translation import Language, translated, use_language
from tests.unit import capture_sample
from tests.unit.capture_sample import capture


def written(folder: Path, found: Capture) -> Path:
    new_folder(folder)
    if found.source is Source.LOG:
        capture_sample.write_capture(folder)
    write_capture(folder, found)
    return folder


def test_a_capture_is_read_as_it_was_written(tmp_path: Path) -> None:
    found = capture(database="shop", ended=Ended.LIMIT, notes=[KeptMessage.of(Message("a", "note {n}", n=1))])
    folder = written(tmp_path / "shop", found)
    assert read_capture(folder) == found
    assert {path.name for path in folder.iterdir()} == {"capture.json", "capture.parquet", "plan.toml", "README.md"}
    assert folder.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("database", ["shop", 'my "shop"\'s\\', "店", None])
def test_its_plan_replays_it_on_a_copy_and_never_on_the_captured_server(tmp_path: Path, database: str | None) -> None:
    folder = written(tmp_path / "my shop!", capture(database=database))
    loaded = load_plan(folder / "plan.toml")
    assert (loaded.plan.name, loaded.plan.workload.capture) == ("my-shop", ".")
    target = loaded.plan.target["copy"].model_dump()
    assert target["database"] == (database or "DATABASE")
    assert "host=COPY" in target["dsn"]
    # an ordinary role may not run CHECKPOINT
    assert not loaded.plan.reset.checkpoint


def test_the_readme_says_what_was_seen_and_what_was_not() -> None:
    found = capture(
        database="shop|x",
        waits=[Wait(wait="Lock:tuple", sessions=1.5)],
        left_out=[LeftOut(reason="copy-data", count=1180, first="a.csv:7")],
        ended=Ended.INTERRUPTED,
        notes=[KeptMessage.of(Message("log-x", "log_lock_waits = off: it has no lock waits"))],
        statements=[StatementClass(text="SELECT '`|\x1b[31m'\nFROM t", calls=3, total_us=3000.0)],
    )
    text = readme(found)
    assert "# Capture of shop\\|x" in text
    assert "| 1,180 | COPY from the client: a log does not have its rows | a.csv:7 |" in text
    assert "The capture was interrupted." in text
    assert "- log_lock_waits = off: it has no lock waits" in text
    assert "| 1.50 | Lock:tuple |" in text
    assert "| 100.0 % | 3 | 1.00 ms |  |  |  | `SELECT ''\\|" in text
    assert "\x1b" not in text
    assert "Restore the database as it was when the capture began, 2026-01-02 00:00:00 UTC" in text


def test_what_a_capture_lacks_is_said_in_the_language_of_a_report() -> None:
    note = Message("log-lacks", "{setting} = {value}: {missing}", setting="log_lock_waits", value="off", missing="x")
    found = capture(
        left_out=[
            LeftOut(reason="copy-data", count=1180),
            LeftOut(reason="background", count=7),
            LeftOut(reason="of-later", count=2),
        ],
        notes=[KeptMessage.of(note)],
    )
    assert [str(each) for each in lacks(found)] == [
        "capture: COPY from the client: a log does not have its rows (1,180)",
        "capture: of-later (2)",
        "capture: log_lock_waits = off: x",
    ]
    with use_language(Language.KOREAN):
        assert translated(lacks(found)[0]) == "캡처: 클라이언트의 COPY: 로그에는 그 행이 없습니다 (1,180)"


def test_a_capture_of_statistics_has_no_plan_to_replay(tmp_path: Path) -> None:
    found = capture(source=Source.STATEMENTS, values=Values.UNKNOWN)
    folder = written(tmp_path / "shop", found)
    assert {path.name for path in folder.iterdir()} == {"capture.json", "README.md"}
    assert "pgdyno synthesise" in (folder / "README.md").read_text()
    assert "Replay it" not in (folder / "README.md").read_text()
    assert read_capture(folder) == found


def test_an_existing_folder_is_refused_unless_it_is_empty(tmp_path: Path) -> None:
    refuse_existing(tmp_path / "new")
    refuse_existing(tmp_path)
    (tmp_path / "a").touch()
    for each in (tmp_path, tmp_path / "a"):
        with pytest.raises(UsageError, match="exists and is not empty"):
            refuse_existing(each)


def test_what_is_said_of_damaged_and_newer_folders(tmp_path: Path) -> None:
    folder = written(tmp_path / "shop", capture())
    file = folder / "capture.json"
    whole = file.read_text()

    def refusal() -> PgdynoError:
        with pytest.raises(PgdynoError) as caught:
            read_capture(folder)
        return caught.value

    file.write_text(whole[:100])
    assert isinstance(refusal(), StoreError)
    assert "it is not JSON" in refusal().message
    file.write_text(json.dumps(json.loads(whole) | {"format": 2}))
    assert "it is of format 2, and this pgdyno reads up to 1" in refusal().message
    assert refusal().hint == "use a newer pgdyno"
    file.write_text(json.dumps(json.loads(whole) | {"calls": "many"}))
    assert "calls: input should be a valid integer" in refusal().message
    file.write_text("[1]")
    assert "it is not an object" in refusal().message
    file.write_text(whole)
    (folder / "capture.parquet").unlink()
    assert "it has no capture.parquet" in refusal().message
    file.unlink()
    assert isinstance(refusal(), UsageError)
    assert "it has no capture.json" in refusal().message
    file.symlink_to("/etc/passwd")
    assert "symbolic link" in refusal().message


def test_the_name_of_a_plan_is_one() -> None:
    assert 'name = "capture"' in plan("…", capture())
    assert 'name = "monday-s-load"' in plan("_monday's load", capture())
    assert f'name = "{"m" * LONGEST_NAME}"' in plan("m" * 100, capture())
