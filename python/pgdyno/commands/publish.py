"""`pgdyno publish`."""

from pathlib import Path
from typing import Annotated

import typer

from pgdyno.commands.support import options
from pgdyno.errors import ExitCode, StoreError, UsageError


def publish(
    named: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN",
            help="Runs, a pattern or a folder of runs, local or at s3://bucket/folder.",
            autocompletion=options.complete_runs,
        ),
    ],
    into: Annotated[Path, typer.Option(metavar="DIR", help="Folder to write; a published one is updated.")],
    url: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Where the folder will be; previews of links need it for their picture."),
    ] = None,
    runs: options.Runs = options.DEFAULT_RUNS,
) -> ExitCode:
    """Write pages of runs that others can check.

    A folder for any web server, or to open from disk: an index that ranks the runs that can be compared, and for each
    run its report, its raw files and the commands that repeat it. Publishing again updates it; other runs vanish.
    """
    from contextlib import ExitStack

    from pgdyno.commands.support.each_run import Unread, each_run, in_line, say_unread
    from pgdyno.console import Console
    from pgdyno.live.control import is_running
    from pgdyno.publish.picture import has_fonts
    from pgdyno.publish.run_entry import Entry
    from pgdyno.publish.site import Made, Site
    from pgdyno.store import load_run
    from pgdyno.store.find_runs import named_runs
    from pgdyno.store.object_storage.runs import open_run
    from pgdyno.units import quantity

    if url is not None and not url.startswith(("https://", "http://")):
        raise UsageError(f"{url!r} is not an address", hint="write it as https://example.org/benchmarks/")
    places = [each for each in named_runs(named, runs).places if Path(each).resolve() != into.resolve()]
    site, console = Site(into, url), Console()
    entries: dict[str, Entry] = {}
    unread: list[Unread] = []
    written = 0

    with site.hold_lock():
        for place in places:
            with ExitStack() as stack:

                def make(place: str, stack: ExitStack = stack) -> Made:
                    run = load_run(stack.enter_context(open_run(place)))
                    if is_running(run.folder.path):
                        raise StoreError("the run goes on", hint="publish it when it has ended")
                    return site.make(run)

                ((_, made),) = each_run(in_line, make, [place])
                if isinstance(made, Unread):
                    unread.append(made)
                    continue
                written += site.write(made)
                entries[made.entry.name] = made.entry
        gone = site.finish(list(entries.values())) if entries else []
    if entries:
        console.print(str(into / "index.html"), soft_wrap=True)
        console.print(f"{quantity(len(entries), 'run')}: {written} written, {len(gone)} removed")
        if not has_fonts():
            console.print("no pictures: this host has no fonts (Debian: apt-get install fonts-dejavu-core)")
    say_unread(unread)
    return unread[0].exit_code if unread else ExitCode.OK
