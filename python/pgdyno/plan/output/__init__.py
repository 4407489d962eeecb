"""What commands print of a plan: its trials, problems and warnings, the code that it runs, its JSON Schema."""
