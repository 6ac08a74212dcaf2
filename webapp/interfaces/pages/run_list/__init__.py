"""Parts of the list of runs."""
