"""kind = "local": an installation of this machine."""
