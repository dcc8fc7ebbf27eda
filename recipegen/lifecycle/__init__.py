"""Following a run from submission to its end."""
