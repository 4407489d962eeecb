"""Records a server for a time: a check of what it logs, its log, its statistics of statements, and its waits."""
