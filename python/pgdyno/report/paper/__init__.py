"""The report on paper: pages of blocks, and typst that sets them."""
