"""Documents with prose, tables and outputs of several tools."""
