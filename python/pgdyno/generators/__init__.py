"""Combines several generators: `pgdrive` on several hosts, each with its share of a load, on Ray.

Only this package knows Ray: a trial sees the events of one engine (`docs/design/cluster.md`).
"""
