"""WSGI entry point: `gunicorn webapp.wsgi`."""

import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webapp.settings")
application = get_wsgi_application()

from webapp.health.code import code_version  # noqa: E402 - needs the line above

code_version()  # now: files that a deployment replaces later are not what runs here
