"""Connection poolers between the clients of a load and its server: docs/design/poolers.md."""
