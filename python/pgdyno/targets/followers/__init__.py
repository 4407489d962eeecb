"""What follows a server while it is measured: its standbys, their readers, and its archive."""
