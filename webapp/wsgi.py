"""WSGI entry point: `gunicorn webapp.wsgi`."""

import gc
import os

from django.core.wsgi import get_wsgi_application
from django.urls import get_resolver

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webapp.settings")
application = get_wsgi_application()
get_resolver().url_patterns  # noqa: B018 - imports every page, once for all processes, not in each one's first request

from webapp.base.disk import code_version  # noqa: E402 - needs the lines above

code_version()  # now: files that a deployment replaces later are not what runs here

# For good: no collection in a request looks through all of this again, and processes go on sharing its memory.
gc.collect()
gc.freeze()
