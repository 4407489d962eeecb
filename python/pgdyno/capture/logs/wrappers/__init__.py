"""What services, containers and log daemons put around the lines of a log."""
