"""Messages as records keep them."""

from __future__ import annotations

import re
from string import Formatter

from pydantic import Field, model_validator

from pgdyno.messages import Message, Parameter, filled
from pgdyno.records.base import Record

LONGEST_NOTE = 2_000
"""The largest number of characters that are displayed."""
VALUE_FORMAT = re.compile(r"\+?,?(\.\d\d?)?[defg%]?")
"""Format specifications of templates: without a width, so that a forged template cannot fill the memory."""


class KeptMessage(Record):
    """A message with its templates, so that a later version displays it as this one did."""

    id: str
    template: str
    plural: str | None = None
    parameters: dict[str, Parameter]
    messages: dict[str, KeptMessage] = Field(default_factory=dict)
    """Messages within it, by parameter; earlier versions kept only their sentences."""

    @classmethod
    def of(cls, message: Message) -> KeptMessage:
        """Convert `message` for storage."""
        return cls(
            id=message.id,
            template=message.template,
            plural=message.plural,
            parameters=message.parameters,
            messages={name: cls.of(value) for name, value in message.items if isinstance(value, Message)},
        )

    @property
    def message(self) -> Message:
        within = {name: each.message for name, each in self.messages.items()}
        return Message(self.id, self.template, self.plural, **{**self.parameters, **within})

    @model_validator(mode="after")
    def _fits(self) -> KeptMessage:
        """Refuse templates that do not fit the parameters: the file may come from somebody else."""
        values = {**self.parameters, **{name: str(each.message) for name, each in self.messages.items()}}
        for template in (self.template, self.plural or ""):
            fields = [(name, form or "") for _, name, form, _ in Formatter().parse(template) if name is not None]
            if not all(name in values and VALUE_FORMAT.fullmatch(form) for name, form in fields):
                raise ValueError(f"the template {template[:LONGEST_NOTE]!r} does not fit its parameters")
            filled(template, values)
        if self.plural is not None and not {"count", "trials"} & values.keys():
            raise ValueError("a plural without a number")
        str(self.message)
        return self
