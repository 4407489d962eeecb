"""One chart a file: figures in, a `Drawing` out."""
