"""The commands, each with its arguments. They import their code when they are called, so that help is quick.

The modules do without `from __future__ import annotations`: Typer would evaluate the text of each annotation twice at
each start.
"""
