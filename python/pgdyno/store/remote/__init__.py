"""Runs and files on object storage (S3, and what answers like it): fetched before they are read, written whole.

What is fetched lies in a temporary folder while it is read; every analysis works on files of this machine.
"""
