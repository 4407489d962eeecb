"""What commands draw on: rich, without its markup. Only this module makes one of rich's consoles; a test holds that."""

from __future__ import annotations

from collections.abc import Iterable
from typing import IO, Any

from rich import console as rich_console
from rich.segment import Segment
from rich.status import Status
from rich.text import Text

from pgdyno.terminal import visible


class Console(rich_console.Console):
    """rich's console without markup, emoji and highlighting; what it is given is `visible`, its own styles stay."""

    def __init__(self, *, stderr: bool = False, soft_wrap: bool = False) -> None:
        """On standard output, or on standard error."""
        super().__init__(stderr=stderr, soft_wrap=soft_wrap, markup=False, emoji=False, highlight=False)

    @property
    def file(self) -> IO[str]:
        """What is written to: while something is drawn over and over, rich's own stream is before the guarded one."""
        found = super().file
        while hasattr(found, "rich_proxied_file"):
            found = found.rich_proxied_file
        return found

    @file.setter
    def file(self, new_file: IO[str]) -> None:
        self._file = new_file

    def render_str(self, text: str, **options: Any) -> Text:  # noqa: ANN401 - rich's own options
        """Strings, before their width is measured."""
        return super().render_str(visible(text), **options)

    def render(
        self, renderable: rich_console.RenderableType, options: rich_console.ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Whatever else is drawn."""
        for each in super().render(renderable, options):
            yield each if each.control else Segment(visible(each.text), each.style)

    def status(self, status: rich_console.RenderableType, **options: Any) -> Status:  # noqa: ANN401 - likewise
        """A line with a spinner, which would read a string as markup."""
        return super().status(Text(status) if isinstance(status, str) else status, **options)
