"""JSON on standard output: UTF-8 in any locale, and exact."""

import json
import re

import pytest

from pgdyno.safe_output import json_text, print_json

STEERING = "a\x1b[2J\x7f\x9b\u202e\u2028\ud800é"


def test_characters_that_control_a_terminal_are_escapes(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    print_json({STEERING: [STEERING]}, indent=2)
    text = capfdbinary.readouterr().out.decode()
    assert json.loads(text) == {STEERING: [STEERING]}
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e\u2028\ufffd]", text)
    assert "é" in text


def test_text_is_on_one_line_unless_indented() -> None:
    assert json_text({"a": [1, "\n"]}) == '{"a": [1, "\\n"]}'
    assert json_text({"a": 1}, indent=2) == '{\n  "a": 1\n}'
