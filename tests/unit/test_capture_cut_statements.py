"""A statement whose text may be cut is never captured, but counted with its place."""

import json
from pathlib import Path

import pytest

from pgdyno.capture.logs import log_blocks
from pgdyno.errors import UsageError
from tests.unit.capture_log_sample import WRITERS, Entry, captured, csvlog, done, formats, jsonlog

BEGIN = "2024-05-01 10:00:00.{:03} UTC [4711] app@shop "
SPACES = """\
2024-05-01 10:00:00.000 UTC [4711] app@shop LOG:  duration: 1.0 ms  statement: DELETE FROM cart
    WHERE id = 7
2024-05-01 10:00:00.050 UTC [4711] app@shop LOG:  duration: 2.0 ms  statement:{}
    UPDATE cart
       SET qty = 2
     WHERE id = 8
2024-05-01 10:00:00.100 UTC [4711] app@shop LOG:  duration: 1.0 ms  statement: SELECT 1
""".format(" ")


def log(*texts: str, end: str = "LOG:  duration: 0.1 ms  plan:\n") -> str:
    """Statements of a log of text as they are in the file; without an `end`, a statement is the last entry."""
    lines = [f"LOG:  duration: 1.0 ms  statement: {text}\n" for text in texts]
    return "".join(BEGIN.format(number) + line for number, line in enumerate([*lines, *([end] if end else [])]))


def test_lines_that_spaces_continue_are_part_of_the_statement_unless_the_log_has_tabs(tmp_path: Path) -> None:
    found = captured(tmp_path, SPACES + BEGIN.format(200) + "LOG:  disconnection: none\n")
    assert found.texts == [
        "DELETE FROM cart\n    WHERE id = 7",
        "\n    UPDATE cart\n       SET qty = 2\n     WHERE id = 8",
        "SELECT 1",
    ]
    assert found.left_out == {}
    found = captured(tmp_path, log("SELECT\n\t1", "SELECT 2\n  of another program", "SELECT 3"))
    assert (found.texts, found.left_out["not-whole"]) == (["SELECT\n1", "SELECT 3"], (1, "3"))


def test_the_last_statement_of_a_log_of_text_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = log("SELECT 1", "DELETE FROM cart\n\tWHERE id = 7", end="")
    first_line = whole[: whole.index("\n\t") + 1]
    for number, text in enumerate((whole, whole[:-1], whole[:-5], first_line, first_line[:-1], SPACES)):
        found = captured(tmp_path / str(number), text)
        assert found.left_out["not-whole"] == (1, "7" if "UPDATE" in text else "2")
        assert found.texts[0] in ("SELECT 1", "DELETE FROM cart\n    WHERE id = 7")
        assert not any("SELECT 1" in each or each.startswith("DELETE") for each in found.texts[1:])
    monkeypatch.setattr(log_blocks, "BLOCK_BYTES", 200)
    first = log("SELECT 1", "SELECT 2", "SELECT 3", end="")
    found = captured(tmp_path, first, first.replace("10:00:00", "10:00:01"))
    assert found.texts == ["SELECT 1", "SELECT 2"] * 2
    assert found.left_out == {"not-whole": (2, "3")}


def logs_of(*statements: str) -> list[str]:
    """A log for each statement, among others and a minute after the one before: one capture is as good as many."""
    return [
        log("SELECT 1", f"DELETE FROM cart{each}", "SELECT 3").replace("10:00:00", f"10:{minute:02}:00")
        for minute, each in enumerate(statements)
    ]


MAY_BE_CUT = [
    "\ncp: no space left",
    "\nWHERE id = 7",
    "\n    WHERE id = 7\nAND qty = 2",
    "\n\tWHERE id = 7\n    AND qty = 2",
    "\n\tWHERE id = 7\nAND qty = 2",
    "\n\nWHERE id = 7",
    "\n    WHERE name = 'two\n    lines'",
    "\n    WHERE name = $$two\n    lines$$",
    '\n    WHERE "two\n    lines" = 1',
    "\n    WHERE name = 'two\n\n    lines'",
    "\n    WHERE name = 'begins",
    "\n    WHERE",
    " WHERE id IN (1, 2, ...",
    " WHERE id = 7 [Truncated...]",
    " WHERE id = 7…",
    f" WHERE id = 7{BEGIN.format(7)}LOG:  duration: 1.0 ms  statement: SELECT 2",
    f" WHERE id = 7{BEGIN.format(7)}ERROR:  division by zero",
]
WHOLE = [
    "\n\tWHERE id = 7\n\t\n\tAND qty = 2",
    "\n\tWHERE id = 7\n\n\tAND qty = 2",
    "\n    WHERE id = 7\n\n    AND qty = 2",
    "\n    WHERE id = 7 -- first line\n    AND qty = 2",
    "\n    WHERE id = 7 /* two\n    lines */ AND qty = 2",
    "\n\tWHERE name = 'two\n\tlines'",
    "\n\n",
    f"\n\tWHERE name = '\n\t{BEGIN.format(7)}LOG:  duration: 1.0 ms  statement: SELECT 2'",
    " WHERE name = 'LOG:  DETAIL:  ERROR:  '",
    " WHERE name = 'x' -- HINT:  none",
]


def test_what_may_be_cut_is_left_out_and_what_is_whole_is_captured(tmp_path: Path) -> None:
    found = captured(tmp_path, *logs_of(*MAY_BE_CUT))
    assert found.texts == ["SELECT 1", "SELECT 3"] * len(MAY_BE_CUT)
    assert found.left_out["not-whole"] == (len(MAY_BE_CUT), "2")
    found = captured(tmp_path, *logs_of(*WHOLE))
    whole = [f"DELETE FROM cart{each}".replace("\n\t", "\n").rstrip() for each in WHOLE]
    whole = [each.replace("10:00:00", f"10:{minute:02}:00") for minute, each in enumerate(whole)]
    assert found.texts == [text for each in whole for text in ("SELECT 1", each, "SELECT 3")]
    assert found.left_out == {}


def test_a_log_without_the_lines_that_continue_statements_is_refused(tmp_path: Path) -> None:
    """As `grep app@shop` leaves them: a statement that looks whole may lack its WHERE."""
    whole = log("DELETE FROM cart\n\tWHERE id = 7", "SELECT qty FROM\n\tcart", "SELECT 2")
    first_lines = "".join(line for line in whole.splitlines(keepends=True) if not line.startswith("\t"))
    for text, message in (
        (first_lines, r"0\.log:2: the statement ends in its middle, and no line"),
        (log("DELETE FROM cart WHERE name = 'x", "SELECT 2"), r"0\.log:1: the statement ends in its middle"),
        (log("DELETE FROM cart", end=""),
         r"0\.log:1: no statement can be replayed; left out: 1 statements whose text"),
    ):  # fmt: skip
        with pytest.raises(UsageError, match=message):
            captured(tmp_path, text)
    assert len(captured(tmp_path, whole).texts) == 3


def test_lines_that_are_shortened_to_a_limit_are_left_out(tmp_path: Path) -> None:
    texts = [f"DELETE FROM cart WHERE id = {number} /*{'x' * 40 * number}*/ AND qty > 0" for number in range(40)]
    whole = log(*texts)
    assert len(captured(tmp_path, whole).texts) == 40
    found = captured(tmp_path / "cut", "".join(f"{line[:1023]}\n" for line in whole.splitlines()))
    assert found.texts == [each for each in texts if f"{each}\n" in whole and len(each) < 930]
    assert found.left_out["not-whole"][0] == 40 - len(found.texts)


PARAMETERS = [
    ("$1 = '7', $2 = 'a...b'", True),
    ("$1 = '7', $2 = NULL", True),
    ("$1 = '7...', $2 = 'a'", False),
    ("$1 = '7', $2 = 'abc...'", False),
    ("$1 = '7', $2 = 'ab", False),
    ("$1 = '7', ", False),
]


@formats
def test_parameters_that_may_be_cut_are_left_out(form: str, tmp_path: Path) -> None:
    query = "SELECT 1 FROM t WHERE a = $1 OR b = $2"
    log = [Entry(f"duration: 1.0 ms  execute <unnamed>: {query}", f"Parameters: {each}") for each, _ in PARAMETERS]
    found = captured(tmp_path, WRITERS[form](["SELECT 1", *log, "SELECT 3"]))
    assert found.columns("sql parameters") == [
        ("SELECT 1", None), (query, ["7", "a...b"]), (query, ["7", None]), ("SELECT 3", None),
    ]  # fmt: skip
    assert found.left_out["parameters-cut"] == (4, {"csvlog": "4", "jsonlog": "4", "stderr": "6"}[form])


@pytest.mark.parametrize("form", ["csvlog", "jsonlog"])
def test_a_file_that_is_cut_anywhere_has_no_statement_that_is_cut(form: str, tmp_path: Path) -> None:
    texts = ["SELECT 1", """DELETE FROM "cart" WHERE id = 7\n\tAND qty = 'x "y" z' -- all"""]
    whole = WRITERS[form]([texts[0], done(texts[1], ms=5)])
    ends = [*range(whole.index("\n") + 61, len(whole), 7), len(whole)]
    # of one server, each with a session of its own: a capture of many files takes hardly longer than one of one
    sessions = ([done(texts[0], pid=pid), done(texts[1], ms=5, pid=pid)] for pid in range(100, 999))
    files = [WRITERS[form](session)[:end] for session, end in zip(sessions, ends, strict=False)]
    found = captured(tmp_path, *files).texts
    assert found.count(texts[0]) == len(files)
    assert {*found} == {*texts}


def test_texts_of_errors_and_rows_that_may_be_cut_are_left_out_and_json_is_whole(tmp_path: Path) -> None:
    text = log("SELECT 1") + BEGIN.format(5) + "ERROR:  division by zero\n"
    text += BEGIN.format(5) + "STATEMENT:  DELETE FROM cart\nWHERE id = 1/0\n" + log("SELECT 3").replace(":00.", ":01.")
    found = captured(tmp_path, text)
    assert (found.texts, found.left_out["not-whole"]) == (["SELECT 1", "SELECT 3"], (1, "3"))
    rows = csvlog(["SELECT 1", 'DELETE FROM cart "c" WHERE id = 7', "SELECT 3"]).splitlines(True)
    cut = rows[1].index('""c') + 1
    for number, text in enumerate((rows[0] + rows[1][:cut] + "\n" + rows[2], rows[0] + rows[2] + rows[1][:cut])):
        found = captured(tmp_path / str(number), text)
        assert found.texts == ["SELECT 1", "SELECT 3"]
        assert sum(count for reason, (count, _) in found.left_out.items() if reason in ("cut", "not-whole")) == 1
    again = "".join(json.dumps(json.loads(line)) + "\n" for line in jsonlog(["SELECT 1", "SELECT 2"]).splitlines())
    assert captured(tmp_path, again).texts == ["SELECT 1", "SELECT 2"]
