"""The report on paper: pages of blocks, typeset by typst."""
