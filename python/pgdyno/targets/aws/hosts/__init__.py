"""EC2 hosts: database servers and generators."""
