"""The kinds of workloads, a package each. Only `pgdyno.registry` names them."""
