"""A sentence as a value: what programs need of it (an id and parameters) apart from the words that people read.

A package that finds something makes a `Message`; who shows it decides on the language. English is `str(message)`;
`report.texts.translated` looks the template up in a catalogue, as gettext does, and formats the same parameters.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Parameter = int | float | str


@dataclass(frozen=True, slots=True, init=False)
class Message:
    """An English template with `{placeholders}`, which may have format specifications, and what to fill them with."""

    id: str
    """Kebab-case and stable: for programs, which read it together with the parameters instead of the sentence."""
    template: str
    plural: str | None
    """The template unless the parameter `count` is 1; None where there is one template for every number."""
    items: tuple[tuple[str, Parameter], ...]
    """Parameters by name, hashable; see `parameters`."""

    def __init__(self, id_: str, template: str, plural: str | None = None, /, **parameters: Parameter) -> None:
        """`plural` needs a parameter `count`."""
        object.__setattr__(self, "id", id_)
        object.__setattr__(self, "template", template)
        object.__setattr__(self, "plural", plural)
        object.__setattr__(self, "items", tuple(parameters.items()))

    @property
    def parameters(self) -> dict[str, Parameter]:
        """By name; those that the template does not show are for programs alone."""
        return dict(self.items)

    @property
    def english(self) -> str:
        """The template for the parameter `count`."""
        return self.template if self.plural is None or self.parameters["count"] == 1 else self.plural

    def __str__(self) -> str:
        """The English sentence."""
        return self.english.format(**self.parameters)


def message_json(message: Message) -> Mapping[str, Any]:
    """For programs: `{"id", "message", "parameters"}`."""
    return {"id": message.id, "message": str(message), "parameters": message.parameters}
