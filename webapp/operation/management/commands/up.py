"""`python manage.py up`: the whole local stack, until Ctrl-C or SIGTERM."""

import signal
from pathlib import Path
from typing import Any

from django.core.management import BaseCommand, CommandError, CommandParser

from stack.home_lock import AlreadyRunning
from stack.supervisor import StackError, Supervisor, print_line


class Command(BaseCommand):
    help = "Start the whole local stack and keep it running; Ctrl-C or SIGTERM stops every part."
    requires_system_checks = ["headroom"]  # of our own settings alone

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--host", default="127.0.0.1", help="address the web server listens on")
        parser.add_argument("--port", type=int, default=8000, help="port of the web server")
        parser.add_argument(
            "--home", type=Path, help="folder that holds all state (default: HEADROOM_HOME or var)"
        )
        parser.add_argument("--no-ray", action="store_true", help="do not start Ray; runs stay queued")

    def handle(
        self, *args: Any, host: str, port: int, home: Path | None, no_ray: bool, **options: Any
    ) -> None:
        supervisor = Supervisor(home, host=host, port=port, with_ray=not no_ray)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, lambda *_: supervisor.request_stop())
        try:
            supervisor.start()
        except (StackError, AlreadyRunning) as error:
            raise CommandError(str(error)) from error
        print_line(f"Headroom is up: {supervisor.services.web_url} (data and logs in {supervisor.home})")
        supervisor.wait()
        print_line("stopping")
        supervisor.stop()
