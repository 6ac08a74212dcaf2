"""Parts of the form of a study."""
