"""Captures of the sessions that go through pgdyno's proxy."""
