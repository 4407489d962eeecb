"""Records what a server's applications do, as a folder that can be replayed and modelled (docs/design/own-load.md)."""
