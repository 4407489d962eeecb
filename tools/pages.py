"""The pages of the reference that are generated: MkDocs adds them to the site, and `make wheels` to the wheels.

`python tools/pages.py FOLDER` writes them into FOLDER/doc, and the manual page into FOLDER/man.
"""

import subprocess
import sys
from importlib import resources
from pathlib import Path
from typing import Any

import audit_page
import cloud_page
import commands_page
import man_page
import messages_page
import published_page
from pgdyno.plan.output.json_schema import schema_text
from pgdyno.programs import locate

PROBE_HEAD = """\
# Sources and metrics of pgprobe

`pgprobe --describe` prints this page. [pgprobe](probe.md) explains the kinds of figures and the lines that carry \
them. The CPU of `core` and `cpu` has a resolution of one tick (10 ms).

"""


def pages() -> dict[str, str]:
    """Returns the text of each generated page by its path below `docs`."""
    output_schema = resources.files("pgdyno").joinpath("json-output.schema.json")
    return {
        "reference/pgdyno.md": commands_page.page(),
        "reference/messages.md": messages_page.page(),
        "reference/audit-rules.md": audit_page.page(),
        "reference/cloud-metrics.md": cloud_page.page(),
        "reference/published-columns.md": published_page.page(),
        "reference/probe-metrics.md": PROBE_HEAD + describe_probe(),
        "reference/plan.schema.json": schema_text(),
        "reference/json-output.schema.json": output_schema.read_text(encoding="utf-8"),
    }


def describe_probe() -> str:
    """Returns the tables of the installed probe's sources and metrics."""
    program = locate("pgprobe", "PGDYNO_PGPROBE", "the probe")
    return subprocess.run([program, "--describe"], capture_output=True, encoding="utf-8", check=True).stdout


def on_files(files: Any, config: Any) -> Any:  # noqa: ANN401 - MkDocs is no dependency of the tests
    """MkDocs' hook: adds the pages to those in `docs`."""
    from mkdocs.structure.files import File

    for path, text in pages().items():
        files.append(File.generated(config, path, content=text))
    return files


def write(folder: Path) -> None:
    """Writes the pages and the manual page, as wheels install them."""
    (folder / "doc").mkdir(parents=True, exist_ok=True)
    (folder / "man").mkdir(exist_ok=True)
    for path, text in pages().items():
        (folder / "doc" / Path(path).name).write_text(text, encoding="utf-8")
    (folder / "man" / "pgdyno.1").write_text(man_page.page(), encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
