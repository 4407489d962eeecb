"""Classes of statements: however long or many the texts are, capture.json can be read, and memory has a bound."""

import json
from pathlib import Path

import pytest

from pgdyno.capture import statement_classes
from pgdyno.capture.folder import read_capture, write_capture
from pgdyno.capture.left_out import lacks
from pgdyno.capture.parser import LONGEST, parse, without_constants
from pgdyno.capture.statement_classes import ClassTexts, select_fitting_classes
from pgdyno.plan.reading.replayed_capture import LARGEST_BYTES, read_replayed
from pgdyno.records.capture import CAPTURE_FILE, CUT_OFF, OTHER_STATEMENTS, Source, StatementClass, as_reported
from pgdyno.store.safe_files import MOST_RECORD_BYTES
from pgdyno.synthesise.modelled_load import model_log
from pgdyno.synthesise.transactions import Left
from tests.captured_load import CapturedLoad
from tests.unit import capture_sample
from tests.unit.capture_log_sample import captured


def rows(count: int) -> str:
    """An INSERT that is longer than what the parser is given."""
    return "INSERT INTO t VALUES " + ", ".join(f"({number}, 'x''{number}')" for number in range(count))


@pytest.mark.slow
def test_texts_that_are_too_long_are_classes_with_their_beginnings(tmp_path: Path) -> None:
    texts = [rows(60_000), rows(60_001), rows(60_000).replace("'x", "'y")]
    assert min(map(len, texts)) > LONGEST
    found = captured(tmp_path, [*texts, "SELECT 1"])
    assert found.texts == [*texts, "SELECT 1"]
    long = [each for each in found.capture.statements if each.text.startswith("INSERT")]
    # those with the same number of rows differ in constants only
    assert sorted(each.calls for each in long) == [1, 2]
    assert {each.text for each in long} == {without_constants(rows(300))[:1000] + CUT_OFF}
    assert [each.has_text for each in long] == [False, False]
    assert (tmp_path / "capture").is_dir()
    write_capture(tmp_path / "capture", found.capture)
    assert (tmp_path / "capture" / CAPTURE_FILE).stat().st_size < 10_000
    assert read_replayed(tmp_path / "capture").statements == found.capture.statements


def test_the_beginning_of_a_text_is_that_of_the_whole_without_constants() -> None:
    for sql in (
        "SELECT $1, 'a''b', 2.5e3 FROM t1" + " " * LONGEST,
        "x" * LONGEST + "y",
        "'" + "x" * LONGEST + "' , $12, 7",
    ):
        assert parse(sql).text == without_constants(sql)[:1000] + CUT_OFF
    assert StatementClass(text="SELECT 'x' AS a…", fingerprint="1", calls=1).has_text
    assert StatementClass(text="SELECT", calls=1).has_text
    assert json.loads(StatementClass(text="x", calls=1).model_dump_json()).keys() == StatementClass.model_fields.keys()


def test_schemas_and_lists_make_classes_of_their_own(tmp_path: Path) -> None:
    classes = {
        "SELECT a FROM t WHERE k = 1": 0, "SELECT a FROM t WHERE k = ANY('{1,2}')": 1,
        "SELECT a FROM t WHERE k IN (1)": 2, "select a from t where k in (1, 2)": 2, "SELECT a FROM one.t": 3,
        "SELECT a FROM other.t": 4, "UPDATE one.t SET a = 1": 5, 'UPDATE "other".t SET a = 1': 6, "SAVEPOINT a": 7,
        "SAVEPOINT b": 7,
    }  # fmt: skip
    rows = captured(tmp_path, list(classes)).columns("sql statement")
    same = [(one, other) for one, of_one in rows for other, of_other in rows if of_one == of_other]
    assert same == [(one, other) for one in classes for other in classes if classes[one] == classes[other]]


def test_classes_that_do_not_fit_are_reported_as_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statement_classes, "MOST_BYTES", 3 * 500)
    selects = (f"SELECT {number} FROM {table}" for number, table in enumerate("abcdead"))
    found = captured(tmp_path, ["BEGIN", *selects, "COMMIT"])
    assert [(each.text, each.calls) for each in found.capture.statements] == [
        # COMMIT is among the others, and ends the transaction
        (OTHER_STATEMENTS, 5),
        ("SELECT $1 FROM a", 2),
        ("BEGIN", 1),
        ("SELECT $1 FROM b", 1),
    ]
    assert sum(each.calls for each in found.capture.statements) == found.capture.calls == 9
    assert {row["transaction"] for row in found.statements} == {0}
    assert found.left_out == {"other-classes": (5, "4")}
    assert [str(each) for each in lacks(found.capture)] == [
        "capture: statements of the class 'other statements': the capture has too many classes (5)"
    ]
    # texts and statistics
    monkeypatch.setattr(statement_classes, "MOST_BYTES", 1000)
    texts = ClassTexts()
    assert [texts.take("x" * size) for size in (10, 500, 10, 10)] == [True, False, True, False]
    monkeypatch.setattr(statement_classes, "MOST_BYTES", 1000)
    classes = [StatementClass(text=f"SELECT {name}", calls=7, rows=5, total_us=2.5) for name in "abcd"]
    assert select_fitting_classes(classes) == (
        [*classes[:2], StatementClass(text=OTHER_STATEMENTS, calls=14, rows=10, total_us=5.0)],
        14,
    )
    assert select_fitting_classes(classes[:2]) == (classes[:2], 0)
    # of a replay
    monkeypatch.setattr("pgdyno.records.capture.MOST_REPORTED", 2)
    counts = {OTHER_STATEMENTS: 9, "SELECT $1": 8, "COMMIT": 1}
    classes = [StatementClass(text=text, calls=calls, errors=1) for text, calls in counts.items()]
    reported, numbers = as_reported(capture_sample.capture(statements=classes))
    pairs = [(each.text, each.calls, each.errors) for each in reported.statements]
    assert pairs == [("SELECT $1", 8, 1), (OTHER_STATEMENTS, 10, 2)]
    assert numbers == [1, 0, 1]


@pytest.mark.long_cases("short")
@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    ["SELECT '\x01\x02\\\"{}", "é店\n{}", "{}" + "x" * 900_000, "{}"],
    ids=["short, escapes", "wide", "long", "short"],
)
def test_what_is_written_can_be_read(text: str, tmp_path: Path) -> None:
    texts, classes = ClassTexts(), []
    number = 10**18
    while texts.take(text.format(number)):
        numbers = dict.fromkeys(("total_us", "p50_us", "p99_us"), number + 0.12345678)
        each = StatementClass(
            text=text.format(number), fingerprint="f" * 16, calls=number, errors=number, rows=number, **numbers
        )
        classes.append(each)
        number += 1
    capture = capture_sample.capture(statements=classes, source=Source.STATEMENTS)
    write_capture(tmp_path, capture)
    size = (tmp_path / CAPTURE_FILE).stat().st_size
    assert size < min(LARGEST_BYTES, MOST_RECORD_BYTES) - (4 << 20)
    assert read_capture(tmp_path) == capture


def test_statements_without_the_text_of_their_class_are_in_no_model(tmp_path: Path) -> None:
    load = CapturedLoad()
    for number in range(100):
        load.add(0, 10_000 * number, "BEGIN", "SELECT 1", "COMMIT")
        load.add(1, 10_000 * number, "SELECT 2 FROM t")
        load.add(2, 10_000 * number, "SELECT 3 FROM u")
    capture = load.capture()
    texts = {"SELECT $1 FROM t": OTHER_STATEMENTS, "SELECT $1 FROM u": "SELECT $1" + CUT_OFF}
    classes = [each.model_copy(update={"text": texts.get(each.text, each.text)}) for each in capture.statements]
    capture = capture.model_copy(update={"statements": classes})
    model = model_log(load.write(tmp_path / "load"), capture, 0.0)
    assert len(model.scripts) == 1
    assert [(each.reason, each.count) for each in model.left] == [(Left.UNREADABLE, 200)]
