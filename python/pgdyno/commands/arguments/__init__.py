"""Arguments of the command line, one module per family of commands. A command imports its code when it is called.

The modules do without `from __future__ import annotations`: Typer would evaluate the text of each annotation twice at
each start, which takes 20 ms of CPU.
"""
