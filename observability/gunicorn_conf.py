"""gunicorn's own lines in the form of ours: `gunicorn --config python:observability.gunicorn_conf webapp.wsgi`.

As text gunicorn writes the line of each request, with its id. As JSON the application writes it, with more fields.
"""

from typing import Any

from gunicorn.glogging import Logger

from observability.logs import is_json
from observability.metrics_folder import own_folder
from observability.redaction import Redacting


class RedactingLogger(Logger):
    """gunicorn's own, whose lines hold no keys."""

    def setup(self, cfg: Any) -> None:
        super().setup(cfg)
        for handler in (*self.error_log.handlers, *self.access_log.handlers):
            handler.addFilter(Redacting())


own_folder()  # of all processes of this server
logger_class = RedactingLogger
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
