"""Servers that are rented from Amazon for a run: made, watched over, and removed behind it.

Nothing here imports boto3 when it is imported itself: it is an optional extra (`pgdyno[aws]`).
"""
