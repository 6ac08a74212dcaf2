"""What of the docs' site is made from the code while it is built: three pages of reference, and the figures."""
