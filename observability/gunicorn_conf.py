"""gunicorn's own lines in the form of ours: `gunicorn --config python:observability.gunicorn_conf webapp.wsgi`.

As text gunicorn writes the line of each request, with its id. As JSON the application writes it, with more fields.
"""

from observability.logs import is_json
from observability.metrics_folder import own_folder

own_folder()  # of all processes of this server
accesslog = None if is_json() else "-"
access_log_format = (
    '%(h)s %(l)s %(u)s %(t)s "%(r)s" %(s)s %(b)s "%(f)s" "%(a)s" request_id=%({x-request-id}o)s'
)
if is_json():
    logconfig_dict = {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"generic": {"()": "observability.logs.formatter"}},
        "root": {"level": "INFO", "handlers": ["console"]},
        "handlers": {
            "console": {
                "class": "logging.StreamHandler",
                "formatter": "generic",
                "stream": "ext://sys.stderr",
            }
        },
        "loggers": {
            "gunicorn.error": {"level": "INFO", "handlers": ["console"], "propagate": False},
            "gunicorn.access": {"level": "WARNING", "handlers": ["console"], "propagate": False},
        },
    }
