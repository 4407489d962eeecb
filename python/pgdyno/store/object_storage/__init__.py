"""Runs and files on object storage (S3 and compatible services): downloaded before they are read, uploaded atomically.

Downloads go to a temporary folder; every analysis reads local files.
"""
