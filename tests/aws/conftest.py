"""Fixtures of tests with a simulated account."""

from tests.aws.account import amazon, rent, root

__all__ = ["amazon", "rent", "root"]
