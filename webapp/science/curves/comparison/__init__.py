"""Runs, recipes and published curves side by side, as data."""
