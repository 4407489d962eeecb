"""Restores the state in which a trial starts, and checks the dataset after it."""

from pgdyno.prepare.cache import check_extension
from pgdyno.prepare.dataset import Dataset
from pgdyno.prepare.reset import Preparer

__all__ = ["Dataset", "Preparer", "check_extension"]
