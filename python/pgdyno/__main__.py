"""Where pgdyno begins: what it does with signals, the command that was typed, and what it ends with.

The handlers are there before anything that takes long to import: while modules are loaded, Python drops the
exceptions of its own handler as it drops those of ours, and nobody would send them again.
"""

from __future__ import annotations

import sys
from typing import NoReturn

from pgdyno.commands.termination import Termination
from pgdyno.errors import ExitCode, PgdynoError, PlanError


def main() -> NoReturn:
    """Runs the command that was typed; ends with a documented exit code."""
    if sys.argv[1:] == ["generator-node"]:
        # what a driver calls on the host of a generator, over SSH; nobody types it
        from pgdyno.cluster.node import main as hold

        sys.exit(hold())
    termination = Termination()
    termination.install()
    try:
        try:
            from pgdyno.cli import app
            from pgdyno.terminal import guard_streams

            guard_streams()
            app(standalone_mode=True)
        finally:
            termination.finish()
    except PgdynoError as error:
        _say(error)
        sys.exit(termination.exit_code or error.exit_code)
    except KeyboardInterrupt:
        # not by a library that the signal may have kept from loading
        print("interrupted", file=sys.stderr)
        sys.exit(ExitCode.INTERRUPTED)
    except BrokenPipeError:
        # whoever read our output has enough of it; the interpreter's own flush must not complain
        sys.stdout = None
        sys.exit(ExitCode.OK)
    except Exception:
        # what a signal interrupted may say so in words of its own: an import, that it cannot load a module
        if termination.exit_code is None:
            raise
        sys.exit(termination.exit_code)
    sys.exit(ExitCode.OK)


def _say(error: PgdynoError) -> None:
    from pgdyno.console import Console

    console = Console(stderr=True, soft_wrap=True)
    console.print("error: ", style="red", end="")
    console.print(error.message)
    if isinstance(error, PlanError):
        from pgdyno.plan.show import problem_lines

        for line in problem_lines(error):
            console.print(line)
    if error.hint:
        console.print("hint: ", style="dim", end="")
        console.print(error.hint)


if __name__ == "__main__":
    main()
