"""Whole data as files: records and curves, unsampled, read and written piece by piece."""
