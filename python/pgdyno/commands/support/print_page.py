"""PDF of a report: its page, printed by Chromium or Chrome with the page's own print style sheet."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from pgdyno.errors import StoreError, UsageError

BROWSERS = (
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "chrome",
    "microsoft-edge",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
)
_LIMIT_S = 300
"""A page of 1,000 trials prints in a minute on a busy machine."""


def find_browser() -> str:
    """Return the path of an installed browser. Raises UsageError without one."""
    found = next((path for each in BROWSERS if (path := shutil.which(each)) is not None), None)
    if found is None:
        raise UsageError(
            "the PDF report is the page printed by Chromium or Chrome, and neither is installed",
            hint="apt-get install chromium, or open the HTML report in your browser and print it",
        )
    return found


def print_page(page: str) -> bytes:
    """Return the PDF of the HTML `page`. Raises UsageError without a browser, StoreError if it fails."""
    browser = find_browser()
    with tempfile.TemporaryDirectory(prefix="pgdyno-print-") as folder:
        source, pdf = Path(folder, "report.html"), Path(folder, "report.pdf")
        source.write_text(page, encoding="utf-8")
        command = [
            browser, "--headless", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
            "--no-pdf-header-footer", f"--user-data-dir={folder}/profile", f"--print-to-pdf={pdf}",
            # the browser refuses root with its sandbox; the page runs no script but its own
            *(["--no-sandbox"] if os.geteuid() == 0 else []),
            source.as_uri(),
        ]  # fmt: skip
        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                # its folders are in the home otherwise
                env=os.environ | {"HOME": folder},
                timeout=_LIMIT_S,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise StoreError(f"{browser} did not print the report within {_LIMIT_S} s") from error
        if not pdf.exists():
            last = done.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
            raise StoreError(f"{browser} did not print the report: {last or f'exit code {done.returncode}'}")
        return pdf.read_bytes()
