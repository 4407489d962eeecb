"""kind = "embedded": a published build, downloaded once and kept."""
