"""Brings a server to the state in which a trial starts, and checks the dataset behind it."""

from pgdyno.prepare.mark import Dataset
from pgdyno.prepare.reset import Preparer

__all__ = ["Dataset", "Preparer"]
