"""Hosts of EC2: database servers and generators."""
