"""The loops of a run: which prompt comes next, how stale it may be, what is measured, what survives a stop."""
