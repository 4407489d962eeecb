"""Other hosts, over SSH: reached as OpenSSH reaches them (`connect`), and with our programs on them (`install`).

SSH takes a while to load: other rooms import these two where they use them.
"""

from pgdyno.remote.problem import RemoteError

__all__ = ["RemoteError"]
