"""How people and programs get in: pages, the API, protocols of other trackers, imports."""
