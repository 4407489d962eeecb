"""Servers that pgdyno rents from Amazon for a run: it creates them, observes them, and removes them after the run.

Importing this package does not import boto3, which is an optional extra (`pgdyno[aws]`).
"""
