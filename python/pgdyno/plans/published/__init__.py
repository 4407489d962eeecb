"""What published benchmarks reported: a table of figures (`NAME.csv`) and where it is from (`NAME.toml`)."""
