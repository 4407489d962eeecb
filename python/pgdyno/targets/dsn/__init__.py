"""kind = "dsn": an existing server, reached over the network."""
