"""Makes a load like a captured one, of any size: ordinary scripts and a plan (docs/design/own-load.md)."""
