"""Messages that count trials have a sentence for one of them."""

import ast
import re

import pytest

from messages_page import message_calls
from pgdyno.messages import Message
from pgdyno.report.translation import Language, translated, use_language

_COUNTED = re.compile(r"(?<!of )\{(trials|count|dips|jumps|percentiles|more)\}(?: more)? (?!is)[a-z]+s\b")


def _texts(node: ast.expr) -> list[str]:
    if isinstance(node, ast.IfExp):
        return [*_texts(node.body), *_texts(node.orelse)]
    return [node.value] if isinstance(node, ast.Constant) and isinstance(node.value, str) else []


def test_every_message_that_counts_something_has_a_singular() -> None:
    lacking = []
    for path, call in message_calls():
        templates = [text for each in call.args[1:] for text in _texts(each)]
        has_plural = len(call.args) > 2
        lacking += [f"{path.name}: {text}" for text in templates if _COUNTED.search(text) and not has_plural]
    assert lacking == []


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"trials": 1}, "off in 1 trial"),
        ({"trials": 2}, "off in 2 trials"),
        ({"trials": 2, "count": 1}, "off in 2 trial"),
    ],
)
def test_the_number_of_trials_chooses_the_sentence_without_a_count(parameters: dict[str, int], said: str) -> None:
    message = Message("off", "off in {trials} trial", "off in {trials} trials", **parameters)
    with use_language(Language.ENGLISH):
        assert (str(message), translated(message)) == (said, said)
