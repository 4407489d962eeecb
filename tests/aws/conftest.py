"""Fixtures of tests with a simulated account."""

from tests.aws.account import amazon, root

__all__ = ["amazon", "root"]
