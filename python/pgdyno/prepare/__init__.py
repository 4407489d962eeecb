"""Brings a server to the state in which a trial starts: loaded, vacuumed, checkpointed."""

from pgdyno.prepare.dataset import Dataset, load_dataset
from pgdyno.prepare.state import settle

__all__ = ["Dataset", "load_dataset", "settle"]
