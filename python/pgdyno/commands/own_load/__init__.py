"""`pgdyno capture` and `synthesise`: a load of your own."""
