"""The page of a run: its report, with its raw files, its picture and the commands that repeat it."""

from markupsafe import Markup, escape

from pgdyno.publish.raw_files import RawFiles
from pgdyno.report.full_report import WholeReport
from pgdyno.report.html import Publication

PAGE, RAW, CSV, PICTURE = "index.html", "raw.tar", "trials.csv", "picture.png"
UP = "../../index.html"
"""The index, from a page."""


def run_page(report: WholeReport, raw: RawFiles, *, url: str | None = None, has_picture: bool = False) -> str:
    """Return the page; `url` is the address of the index, for programs that follow no relative link to a picture."""
    return report.html(
        Publication(
            head=_head(report, raw, url, has_picture=has_picture),
            brand=Markup('<b>pgdyno</b> <a href="{}">all runs</a>').format(UP),
            link=Markup('<li><a href="#repeat">Repeat</a></li>'),
            end=_repeat(raw),
        )
    )


def _head(report: WholeReport, raw: RawFiles, url: str | None, *, has_picture: bool) -> Markup:
    at = "" if url is None else f"{url.rstrip('/')}/runs/{raw.page_name}/"
    said = ("Not valid: " if report.draft.said.invalid else "") + report.draft.said.text
    found = {"og:type": "article", "og:title": said, "og:url": at + PAGE}
    if has_picture:
        found |= {"og:image": at + PICTURE, "og:image:width": "1200", "og:image:height": "630", "og:image:alt": said}
    lines = [Markup('<meta property="{}" content="{}">').format(*each) for each in found.items()]
    return Markup("\n").join(
        [*lines, *([Markup('<meta name="twitter:card" content="summary_large_image">')] * has_picture)]
    )


def _repeat(raw: RawFiles) -> Markup:
    check = f"sha256sum {RAW}    # begins with the digits in this page's address\ntar -xf {RAW}"
    commands = f"{check}\npgdyno report {raw.folder}/"
    if raw.plan is not None:
        commands += f"\ncd {raw.folder}/repeat && pgdyno run plan.toml"
    return Markup(
        '<section aria-labelledby="repeat"><h2 id="repeat">Check and repeat</h2>\n'
        '<p>Download: <a href="{}" download>raw files</a>, <a href="{}" download>trials as CSV</a>.</p>\n'
        "<p>These commands check the files, write this report from them, and repeat the run:</p>\n"
        '<pre tabindex="0" role="region" aria-label="Commands">{}</pre></section>'
    ).format(RAW, CSV, escape(commands))
