"""Debian's Chromium, driven by Playwright: it is offline, and every request and error is recorded."""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Dialog, Page, sync_playwright


@dataclass
class Watched:
    """A page with its unwanted requests and errors."""

    page: Page
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    """Errors of the console and of scripts, and dialogs."""

    def refuse(self, dialog: Dialog) -> None:
        """Records and dismisses a dialog, which no page of pgdyno opens."""
        self.complaints.append(dialog.message)
        dialog.dismiss()


Opens = Callable[..., Watched]
"""Opens HTML, or a file, in a window of `width`; other options are those of Playwright's contexts."""


def serious(page: Page) -> list[tuple[str, str]]:
    """Returns axe's accessibility violations on `page` that exclude users: the rule and the element."""
    return [
        (each["id"], node["html"][:200])
        for each in Axe().run(page).response["violations"]
        if each["impact"] in ("serious", "critical")
        for node in each["nodes"][:3]
    ]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One browser per file: while Playwright runs, tests of other files could not have their own event loop."""
    path = shutil.which("chromium")
    if path is None:
        pytest.fail("there is no chromium: make test-packages installs it")
    with sync_playwright() as playwright:
        # as root, and in containers, chromium's own sandbox cannot be had
        started = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture
def opened(browser: Browser, tmp_path: Path) -> Iterator[Opens]:
    """Opens HTML from disk without a network."""
    contexts = []

    def open_page(html: str | Path, width: int = 1280, **options: Any) -> Watched:  # noqa: ANN401 - playwright's own
        file = html if isinstance(html, Path) else tmp_path / "report.html"
        if isinstance(html, str):
            file.write_text(html, encoding="utf-8")
        context = browser.new_context(viewport={"width": width, "height": 900}, offline=True, **options)
        contexts.append(context)
        watched = Watched(context.new_page())
        watched.page.on("request", lambda request: watched.requests.append(request.url))
        watched.page.on("console", lambda message: watched.complaints.append(message.text))
        watched.page.on("pageerror", lambda error: watched.complaints.append(str(error)))
        watched.page.on("dialog", watched.refuse)
        watched.page.goto(file.as_uri())
        return watched

    yield open_page
    for context in contexts:
        context.close()
