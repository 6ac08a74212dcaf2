"""What browsers load: collected once, named by a hash of the content, compressed, and kept for ever by caches."""
