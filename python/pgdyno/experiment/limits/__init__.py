"""What ends a run before its last trial: too little disk, too high a cost, no time left."""
