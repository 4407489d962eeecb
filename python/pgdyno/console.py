"""The console for commands: rich without markup. Only this module creates a rich console; a test checks that."""

from __future__ import annotations

from collections.abc import Iterable
from typing import IO, Any

from rich import console as rich_console
from rich.segment import Segment
from rich.status import Status
from rich.text import Text

from pgdyno.terminal import visible


class Console(rich_console.Console):
    """rich's console without markup, emoji and highlighting; text passes `visible`, and rich's own styles stay."""

    def __init__(self, *, stderr: bool = False, soft_wrap: bool = False) -> None:
        super().__init__(stderr=stderr, soft_wrap=soft_wrap, markup=False, emoji=False, highlight=False)

    @property
    def file(self) -> IO[str]:
        """rich replaces the stream during a live display; its own stream then precedes the guarded one."""
        found = super().file
        while hasattr(found, "rich_proxied_file"):
            found = found.rich_proxied_file
        return found

    @file.setter
    def file(self, new_file: IO[str]) -> None:
        self._file = new_file

    def render_str(self, text: str, **options: Any) -> Text:  # noqa: ANN401 - rich's own options
        return super().render_str(visible(text), **options)

    def render(
        self, renderable: rich_console.RenderableType, options: rich_console.ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        for each in super().render(renderable, options):
            yield each if each.control else Segment(visible(each.text), each.style)

    def status(self, status: rich_console.RenderableType, **options: Any) -> Status:  # noqa: ANN401 - likewise
        """A status line that does not parse markup."""
        return super().status(Text(status) if isinstance(status, str) else status, **options)
