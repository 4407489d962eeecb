"""Fixtures of tests with a simulated account."""

from tests.aws.account import amazon

__all__ = ["amazon"]
