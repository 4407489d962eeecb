"""kind = "embedded": a published build, fetched once and kept."""
