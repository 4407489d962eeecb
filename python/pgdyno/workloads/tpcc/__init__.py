"""`name = "tpcc"`: derived from TPC-C."""
