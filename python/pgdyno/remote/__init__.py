"""Other hosts, over SSH: reached as OpenSSH reaches them, and with our programs on them."""

from pgdyno.remote.connect import connected
from pgdyno.remote.install import Installed, install
from pgdyno.remote.problem import RemoteError

__all__ = ["Installed", "RemoteError", "connected", "install"]
