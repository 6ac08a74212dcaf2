"""What the parts of an installation are doing now, and what is wrong with them, for people and for load balancers."""
