"""Which process runs where on Ray, how the driver talks to it, and what happens if it dies."""
