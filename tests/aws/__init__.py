"""A simulator of the parts of Amazon that pgdyno uses, held against Amazon's own description of them."""
