"""kind = "build": a source tree that pgdyno compiles."""
