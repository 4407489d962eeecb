"""Combines several generators: engines here and on hosts over SSH, each with its share of a load.

A trial sees the events of one engine (`docs/design/cluster.md`).
"""
