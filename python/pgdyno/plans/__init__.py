"""The catalogue of plans that ship with pgdyno, one per file; `pgdyno run NAME` runs one."""
