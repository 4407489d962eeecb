"""A run's figures as OpenMetrics: a stored run as text with timestamps, a running one at an HTTP endpoint."""

from pgdyno.metrics.catalogue import Catalogue, read_catalogue
from pgdyno.metrics.stored_run import openmetrics

__all__ = ["Catalogue", "openmetrics", "read_catalogue"]
