"""The entry point: signals, the command, the exit code.

The handlers are installed before any slow import: while it loads modules, Python drops exceptions of its own handlers,
and nothing would send the signal again.
"""

from __future__ import annotations

import sys
from typing import NoReturn

from pgdyno.commands.termination import Termination
from pgdyno.errors import ExitCode, PgdynoError, PlanError


def main() -> NoReturn:
    """Runs the command line; exits with a documented code."""
    if sys.argv[1:] == ["generator-node"]:
        # internal: a driver calls this over SSH on the host of a generator
        from pgdyno.generators.ray_node import main as hold

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
        # without libraries, whose import the signal may have interrupted
        print("interrupted", file=sys.stderr)
        sys.exit(ExitCode.INTERRUPTED)
    except BrokenPipeError:
        # the reader has closed the pipe; the interpreter's own flush must not fail on it
        sys.stdout = None
        sys.exit(ExitCode.OK)
    except Exception:
        # interrupted code may raise an error of its own, such as an ImportError
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
