"""kind = "local": an installation on this machine."""
