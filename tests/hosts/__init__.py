"""EC2 hosts as this machine can imitate them: a Debian with systemd and cloud-init in namespaces."""
