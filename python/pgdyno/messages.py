"""A message as a value: an ID and parameters for programs, and a template for the English sentence.

The package that detects something creates a `Message`; its consumer chooses the language. `str(message)` is English;
`report.translation.translate` translates the template with gettext and formats the same parameters.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from string import Formatter
from typing import Any

Parameter = int | float | str
"""A parameter as programs read it."""


@dataclass(frozen=True, slots=True, init=False)
class Message:
    """An English template with `{placeholders}`, which may have format specifications, and its parameters."""

    id: str
    """A stable ID in kebab-case, which programs read with the parameters instead of the sentence."""
    template: str
    plural: str | None
    """The template unless the number (`count`, or `trials` without one) is 1; None if one serves every number."""
    items: tuple[tuple[str, Parameter | Message], ...]
    """Hashable pairs of names and values; a message within another is translated with it."""

    def __init__(
        self, id_: str, template: str, plural: str | None = None, /, **parameters: Parameter | Message
    ) -> None:
        """Require a parameter `count` or `trials` if there is a `plural`."""
        object.__setattr__(self, "id", id_)
        object.__setattr__(self, "template", template)
        object.__setattr__(self, "plural", plural)
        object.__setattr__(self, "items", tuple(parameters.items()))

    @property
    def parameters(self) -> dict[str, Parameter]:
        """Return the parameters by name, including those that the template does not show.

        A message `NAME` within this one is its sentence, with its id as `NAME_id` and its parameters among these.
        """
        plain: dict[str, Parameter] = {}
        for name, value in self.items:
            if isinstance(value, Message):
                plain |= {**value.parameters, name: str(value), f"{name}_id": value.id}
        return plain | {name: value for name, value in self.items if not isinstance(value, Message)}

    @property
    def number(self) -> int:
        """The number that chooses between template and plural."""
        values = dict(self.items)
        return int(str(values.get("count", values.get("trials", 0))))

    @property
    def english(self) -> str:
        return self.template if self.plural is None or self.number == 1 else self.plural

    def __str__(self) -> str:
        return fill_template(self.english, dict(self.items))


class _Filler(Formatter):
    """Formats percentages as all of pgdyno does, with a space: "9 %", where Python writes "9%"."""

    def format_field(self, value: object, format_spec: str) -> str:
        text = str(super().format_field(value, format_spec))
        return f"{text[:-1]} %" if format_spec.endswith("%") else text


_FILLER = _Filler()


def fill_template(template: str, values: Mapping[str, object]) -> str:
    """Return `template` with its `{placeholders}` replaced by `values`."""
    return _FILLER.vformat(template, (), values)


def message_json(message: Message) -> Mapping[str, Any]:
    """Return `{"id", "message", "parameters"}`."""
    return {"id": message.id, "message": str(message), "parameters": message.parameters}


def messages_json(name: str, messages: Iterable[Message]) -> dict[str, list[Any]]:
    """Return the sentences as `name`, and `message_json` of each: `notes` and `note_details`."""
    each = list(messages)
    return {name: [str(one) for one in each], f"{name.removesuffix('s')}_details": [message_json(one) for one in each]}
