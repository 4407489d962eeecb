"""All wrappers, in the order in which they are tried: one that says more comes first."""

from __future__ import annotations

from pgdyno.capture.logs.wrappers import (
    azure,
    cloudnativepg,
    cloudwatch_logs,
    docker,
    google_cloud,
    heroku,
    journald,
    kubernetes,
    syslog,
    timestamps,
)

WRAPPERS = (
    heroku.LOGPLEX, syslog.SYSLOG, kubernetes.CRI, kubernetes.PREFIX, docker.COMPOSE, timestamps.TIMESTAMPS,
    cloudwatch_logs.TAIL, docker.JSON_FILE, cloudwatch_logs.EVENTS, google_cloud.ENTRIES, azure.RECORDS,
    journald.RECORDS, cloudnativepg.ROWS,
)  # fmt: skip
