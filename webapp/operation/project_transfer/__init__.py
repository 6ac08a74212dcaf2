"""One project from one installation to another: a file of its rows, and what puts them into another database."""
