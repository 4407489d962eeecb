"""Each class of waits has a colour wherever waits are drawn."""

import re
from pathlib import Path

from pgdyno.records.probe import WAIT_CLASSES
from pgdyno.report.terminal import timeline
from pgdyno.watch import page
from tests.present import present

PYTHON = Path(__file__).parents[2] / "python" / "pgdyno"


def test_terminals_have_a_colour_and_a_letter_for_each_class_of_waits() -> None:
    assert set(timeline.COLOURS) == set(timeline.LETTERS) == set(WAIT_CLASSES)
    # I/O has PostgreSQL's own name in `watch --json`
    assert [name.replace("IO", "I/O") for name in page.STYLES] == list(WAIT_CLASSES)
    assert len(set(timeline.LETTERS.values())) == len(WAIT_CLASSES)


def test_the_pages_of_a_report_and_of_a_run_have_a_colour_for_each_class_of_waits() -> None:
    script = (PYTHON / "report" / "page" / "strips.js").read_text()
    table = present(re.search(r"COLOUR = \{(.*?)\}", script, re.DOTALL))
    assert re.findall(r'"([^"]+)": "[^"]+"', table[1])[: len(WAIT_CLASSES)] == list(WAIT_CLASSES)
