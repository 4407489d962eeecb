"""Published benchmark results: a table of figures (`NAME.csv`) with its source (`NAME.toml`)."""

from pgdyno.published.figures import COLUMNS, Published, published, published_names

__all__ = ["COLUMNS", "Published", "published", "published_names"]
