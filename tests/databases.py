"""Other databases of the server that the tests use."""

import os


def database_url(name: str) -> str:
    """The address of the database of this name."""
    head, _, query = os.environ["DATABASE_URL"].partition("?")
    return f"{head.rsplit('/', 1)[0]}/{name}" + (f"?{query}" if query else "")
