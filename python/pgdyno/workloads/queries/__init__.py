"""`name = "tpch"`: queries that are each measured by themselves, derived from TPC-H."""
