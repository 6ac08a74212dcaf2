"""What the web server has in hand before it is divided into processes."""

import subprocess
import sys

LOADED = """
import sys
import webapp.wsgi
inside = ("pages.urls", "api.runs", "mlflow.urls")
missing = {"webapp.urls", *(f"webapp.interfaces.{name}" for name in inside)} - set(sys.modules)
assert not missing, missing
from django.db import connections
assert all(one.connection is None for one in connections.all())
import threading
assert threading.active_count() == 1, threading.enumerate()
import gc
late = len(gc.get_objects())
assert gc.get_freeze_count() > 100 * late, (gc.get_freeze_count(), late)
"""


def test_the_pages_are_imported_before_the_first_request_and_nothing_is_opened():
    """A process of the server that imported them itself would keep its first reader waiting for seconds; and one that
    looked through all of it for garbage would stand still meanwhile, with a copy of what was shared."""
    subprocess.run([sys.executable, "-W", "error::RuntimeWarning", "-c", LOADED], check=True)
