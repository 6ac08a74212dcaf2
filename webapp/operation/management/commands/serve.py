"""`python manage.py serve web|worker|beat`: this process becomes one part of an installation, as a service runs it.

The same programs with the same options as `up` starts; DATABASE_URL, REDIS_URL and RAY_ADDRESS say where the rest is.
"""

import os
from typing import Any

from django.core.management import BaseCommand, CommandParser

from stack import environment, parts


class Command(BaseCommand):
    help = "Become one part of an installation: the web server, a worker, or (once) beat."
    requires_system_checks = ["headroom"]  # of our own settings alone

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("part", choices=("web", "worker", "beat"))
        parser.add_argument("--host", default="127.0.0.1", help="address the web server listens on")
        parser.add_argument("--port", type=int, default=8000, help="port of the web server")
        parser.add_argument(
            "--processes", type=int, default=parts.PROCESSES, help="of the web server or the worker"
        )

    def handle(self, *args: Any, part: str, host: str, port: int, processes: int, **options: Any) -> None:
        command = {
            "web": lambda: parts.web_command(host, port, processes),
            "worker": lambda: parts.worker_command(processes),
            "beat": parts.beat_command,
        }[part]()
        environment.keep_private(environment.home())
        variables = parts.ONE_THREAD if part == "web" else parts.CELERY
        path = os.pathsep.join(filter(None, [str(environment.ROOT), os.environ.get("PYTHONPATH")]))
        os.execve(command[0], command, {**os.environ, **variables, "PYTHONPATH": path})  # nosec B606  # no shell
