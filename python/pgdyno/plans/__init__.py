"""The catalogue: plans that pgdyno brings, a file each; `pgdyno run NAME` runs one."""
