"""What published benchmarks reported: a table of figures (`NAME.csv`) and where it is from (`NAME.toml`)."""

from pgdyno.published.figures import COLUMNS, Published, published, published_names

__all__ = ["COLUMNS", "Published", "published", "published_names"]
