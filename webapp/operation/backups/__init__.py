"""Backups: the database as PostgreSQL dumps it, an index of the checkpoints, and the settings, in one file."""
