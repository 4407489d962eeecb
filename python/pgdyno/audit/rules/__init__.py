"""A module a rule."""
