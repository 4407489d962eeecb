"""A live view of any server: the waits of its sessions, the load of its host."""
