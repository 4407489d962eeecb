"""Hosts of Amazon's as this machine can make them: a Debian with systemd and cloud-init in namespaces."""
