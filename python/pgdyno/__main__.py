"""The entry point: signals, the command, the exit code.

The handlers are installed before any slow import: while it loads modules, Python drops exceptions of its own handlers,
and nothing would send the signal again.
"""

import gc
import os
import sys
from typing import NoReturn

from pgdyno.errors import ExitCode, PgdynoError, PlanError
from pgdyno.signals_and_exit import Termination, leave

COLLECT_AFTER = 250_000
"""New objects after which Python's collector looks for cycles."""


def main() -> NoReturn:
    """Run the command line; exits with a documented code."""
    # pydantic would read the entry points of every installed package, a tenth of the time of a short command
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    # numpy's OpenBLAS would start a thread for each core, and each spins for a tenth of a second: pgdyno never uses
    # them, and they would take CPU time from a server under test
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # imported modules are no garbage: with Python's 700, a tenth of a short command's time goes into looking for some;
    # with 50,000, 45 ms of `show`
    gc.set_threshold(COLLECT_AFTER)
    try:
        _run()
    except SystemExit as end:
        # every other type of code is a text for standard error, which Python's own exit prints
        if not isinstance(end.code, int):
            raise
        leave(end.code)


def _run() -> NoReturn:
    """Run the command line. Raises SystemExit with a documented code."""
    termination = Termination()
    termination.install()
    try:
        try:
            from pgdyno.cli import app, configured_defaults
            from pgdyno.safe_output import flush_output, guard_streams

            guard_streams()
            try:
                app(standalone_mode=True, default_map=configured_defaults())
            finally:
                flush_output()
        finally:
            termination.finish()
    except PgdynoError as error:
        _print_error(error)
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


def _print_error(error: PgdynoError) -> None:
    from pgdyno.console import Console

    console = Console(stderr=True, soft_wrap=True)
    console.print("error: ", style="red", end="")
    console.print(error.message)
    if isinstance(error, PlanError):
        from pgdyno.plan.output.plan_output import problem_lines

        for line in problem_lines(error, console.room):
            console.print(line)
    if error.hint:
        console.print("hint: ", style="dim", end="")
        console.print(error.hint)


if __name__ == "__main__":
    main()
