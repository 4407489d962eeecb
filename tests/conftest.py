"""What every test can rely on, wherever the tests are run."""

from __future__ import annotations

import os
import signal
import tempfile

import pytest

# its assertions tell what they compared, too
pytest.register_assert_rewrite("tests.recount")

# a job in the background is started with SIGINT ignored, and all its children inherit that: then no test could
# press Ctrl-C; a handler of ours is reset to the default in programs that tests start
signal.signal(signal.SIGINT, signal.default_int_handler)
# and under nohup they are started with SIGHUP ignored
signal.signal(signal.SIGHUP, signal.SIG_DFL)

# a test neither waits for who measures on this host, nor holds anybody off
os.environ["PGDYNO_LOCKS"] = tempfile.mkdtemp(prefix="pgdyno-locks-")
