"""Recipes by ceiling: rows, ranks, evidence, and the sentences above them."""
