"""`pgdyno bisect`: which commit made a load slower."""
