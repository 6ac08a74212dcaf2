"""`python manage.py demo`: the whole stack, two recipes trained side by side, their ceilings compared."""

import signal
import sys
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from stack import demo
from stack.home_lock import AlreadyRunning
from stack.supervisor import StackError, Supervisor, print_line


class Command(BaseCommand):
    help = "Start the local stack, train ScaleRL and GRPO on the default task, and compare their ceilings."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--exit", action="store_true", help="stop everything once both runs have ended")
        parser.add_argument("--host", default="127.0.0.1", help="address of the web server (127.0.0.1)")
        parser.add_argument("--port", type=int, default=8000, help="port of the web server (8000)")
        parser.add_argument("--home", type=Path, help="folder of all state (HEADROOM_HOME, else ./var)")

    def handle(self, *args: Any, **options: Any) -> None:
        supervisor = Supervisor(options["home"], host=options["host"], port=options["port"])
        # SIGINT too: where a shell starts the demo in the background, it would be ignored.
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.default_int_handler)
        try:
            fitted = run_demo(supervisor, stay=not options["exit"])
        except (StackError, AlreadyRunning) as error:
            raise CommandError(str(error)) from error
        except KeyboardInterrupt:
            print_line("\nstopping")
            fitted = not options["exit"]
        finally:
            supervisor.stop()
        if options["exit"] and not fitted:
            sys.exit(1)


def run_demo(supervisor: Supervisor, *, stay: bool) -> bool:
    """Start, launch, watch, compare; with `stay`, wait for Ctrl-C. True when both runs succeeded and were fitted."""
    supervisor.start()
    url = supervisor.services.web_url
    assert url is not None
    print_line(f"\nHeadroom is up at {url}")
    fitted = demo.show(url, supervisor.username, print_line)
    if stay:
        print_line(f"\nThe stack stays up at {url}; Ctrl-C stops it.")
        supervisor.wait()
    return fitted
