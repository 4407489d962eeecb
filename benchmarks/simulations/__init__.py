"""How far the analysis can be trusted, by simulation; tests assert the same with fewer draws."""
