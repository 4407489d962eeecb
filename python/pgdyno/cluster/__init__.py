"""Many generators as one: `pgdrive` on several hosts, each with its part of a load, on Ray.

Nothing else of the product knows about Ray: a trial sees the events of one engine (`docs/design/cluster.md`).
"""
