"""`lua` and `name`: sysbench's scripts and workloads."""
