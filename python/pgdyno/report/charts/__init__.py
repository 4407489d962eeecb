"""One chart per file: figures in, a `Drawing` out."""
