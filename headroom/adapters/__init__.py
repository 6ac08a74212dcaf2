"""What makes other trainers report to Headroom: a callback for transformers and TRL, a logger for verl."""
