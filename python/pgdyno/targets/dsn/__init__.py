"""kind = "dsn": a server that is there already and is reached over the network."""
