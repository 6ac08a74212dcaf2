"""Starts the local stack, restarts what dies, stops everything.

    PostgreSQL ─> migrations, first account, recipes ─┬─> web
    Redis ────────────────────────────────────────────┴─> Celery, its beat
    Ray  (in parallel with all of it)

A part whose address is set in the environment (DATABASE_URL, REDIS_URL, RAY_ADDRESS) is used, not started.
"""

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from observability import logs, metrics_folder
from stack import environment, outside, parts, variables
from stack.environment import Services
from stack.home_lock import lock_home
from stack.part import Part
from stack.ports import free_port, listening_error
from stack.prepare import PrepareError, prepare_database

POLL_SECONDS = 0.1
START_BYTES = 200e6  # of free disk, without which PostgreSQL soon stops
STOP_SECONDS = 20.0  # a keeper needs at most 10 s of grace and a few for leftovers


class StackError(RuntimeError):
    """The stack cannot run; the message says why in words."""


def print_line(text: str) -> None:
    """Print at once, also into a pipe; as a line of the log where that is JSON."""
    logs.say(text, part="supervisor")


class Supervisor:
    """The local stack on one HEADROOM_HOME.

    >>> supervisor = Supervisor(home=Path("var"))
    >>> supervisor.start()  # raises StackError or AlreadyRunning; nothing is left running then
    >>> supervisor.services.web_url
    'http://127.0.0.1:8000'
    >>> supervisor.wait()  # until stop() is called from elsewhere (a signal handler, another thread)
    >>> supervisor.stop()
    """

    def __init__(
        self,
        home: Path | None = None,
        *,
        host: str = "127.0.0.1",
        port: int = 8000,
        with_ray: bool = True,
        say: Callable[[str], None] = print_line,
    ) -> None:
        self.home = (home or environment.home()).resolve()
        self.host, self.port = host, port
        self.with_ray = with_ray
        self.services = Services()
        self.username = "admin"
        self.parts: list[Part] = []
        self._say = say
        self._stopping = threading.Event()
        self._monitor: threading.Thread | None = None
        self._lock = -1
        self._stop_mutex = threading.Lock()

    def start(self) -> None:
        """Bring everything up; returns when all parts work. Raises StackError, AlreadyRunning."""
        os.environ["HEADROOM_HOME"] = str(self.home)  # for this process's own settings and for every child
        if problem := outside.home_problem(self.home, START_BYTES):
            raise StackError(problem)
        environment.keep_private(self.home)
        self._log_folder.mkdir(exist_ok=True)
        self._check_outside()
        self._lock = lock_home(self.home, self._say)
        try:
            self._start_all()
        except BaseException:
            self.stop()
            raise
        self._monitor = threading.Thread(target=self._watch, name="supervisor", daemon=True)
        self._monitor.start()

    def wait(self) -> None:
        """Block until `stop` is called."""
        while not self._stopping.wait(1.0):  # a time-out, so that signals are handled
            pass

    def request_stop(self) -> None:
        """Have `wait` return; safe in a signal handler. Call `stop` afterwards."""
        self._stopping.set()

    def stop(self) -> None:
        """Stop every part and wait until they are gone. Safe to call twice."""
        self._stopping.set()
        with self._stop_mutex:
            if self._monitor is not None and self._monitor is not threading.current_thread():
                self._monitor.join()
            stores = [part for part in self.parts if part.name in ("postgres", "redis")]
            users = [part for part in self.parts if part not in stores]
            for stage in (users, stores):
                for part in stage:
                    part.ask_to_stop()
                for part in stage:
                    part.wait_stopped(STOP_SECONDS)
            self.parts = []
            if self._lock >= 0:
                os.close(self._lock)
                self._lock = -1

    @property
    def _log_folder(self) -> Path:
        return self.home / "logs"

    def _start_all(self) -> None:
        if error := listening_error(self.host, self.port):
            hint = "; choose another port with --port" if "use" in error else ""
            raise StackError(f"the web server cannot listen on {self.host}:{self.port}: {error}{hint}")
        ray_address = self._start_ray()
        redis_url = self._start_redis()
        self.services = Services(
            database_url=self._start_postgres(),
            redis_url=redis_url,
            ray_address=ray_address,
            web_url=os.environ.get("HEADROOM_URL") or parts.local_url(self.host, self.port),
        )
        self.services.save(self.home)
        self._prepare()
        self._start_servers()
        self._wait_ready(self.parts)

    def _check_outside(self) -> None:
        """What others run must be usable before anything starts; without the cluster runs only wait."""
        asked = (("DATABASE_URL", outside.database_problem), ("REDIS_URL", outside.broker_problem))
        found = [problem for name, ask in asked if (url := os.environ.get(name)) and (problem := ask(url))]
        if found:
            raise StackError("\n".join(found))
        address = os.environ.get("RAY_ADDRESS")
        if address and (problem := outside.cluster_problem(address)):
            self._say(f"{problem} Runs wait until then.")
        for warning in variables.unknown(os.environ):
            self._say(warning)

    def _start_ray(self) -> str | None:
        if os.environ.get("RAY_ADDRESS") or not self.with_ray:
            return os.environ.get("RAY_ADDRESS")
        if not parts.RAY_PROGRAM.exists():
            raise StackError(
                "Ray is not installed: it comes with headroom[train]; --no-ray starts without it, "
                "RAY_ADDRESS names a cluster that runs already"
            )
        ray = parts.RayPart(self.home, self._log_folder)
        self._launch(ray)
        return ray.address

    def _start_redis(self) -> str:
        if url := os.environ.get("REDIS_URL"):
            return url
        port = free_port()
        self._launch(parts.redis_part(self.home, self._log_folder, port))
        return parts.redis_url(port)

    def _start_postgres(self) -> str:
        if url := os.environ.get("DATABASE_URL"):
            return url
        part, address_file = parts.postgres_part(self.home, self._log_folder)
        self._launch(part)
        self._wait_ready([part])
        return address_file.read_text()

    def _start_servers(self) -> None:
        variables = parts.ray_variables() if self.with_ray and not os.environ.get("RAY_ADDRESS") else {}
        if not os.environ.get(metrics_folder.VARIABLE):  # web server, worker and beat count together
            variables |= {metrics_folder.VARIABLE: str(metrics_folder.fresh(self.home / "metrics"))}
        hosts = os.environ.get("HEADROOM_ALLOWED_HOSTS") or parts.allowed_hosts(self.host)
        web = parts.web_part(
            self._log_folder, self.host, self.port, variables | {"HEADROOM_ALLOWED_HOSTS": hosts}
        )
        worker = parts.worker_part(self.home, self._log_folder, variables)
        for part in (web, worker, parts.beat_part(self._log_folder, variables)):
            self._launch(part)

    def _prepare(self) -> None:
        self._say("preparing the database")
        log_path = self._log_folder / "prepare.log"
        try:
            password = prepare_database(self.username, log_path, self._stopping, self._lock, self._say)
        except PrepareError as error:
            raise StackError(str(error)) from error
        if password:  # at once: what comes next may fail or be stopped, and nobody would ever see it
            self._say(f"first account: {self.username}, password {password}")
            self._say(f"(shown once; change it with: python manage.py changepassword {self.username})")

    def _launch(self, part: Part) -> None:
        self.parts.append(part)
        part.start(self._lock)

    def _wait_ready(self, waiting: Iterable[Part]) -> None:
        """Wait until each part works; says which one it waits for. A part that dies meanwhile is restarted."""
        for part in waiting:
            if part.ready():
                continue
            self._say(f"waiting for {part.name}")
            deadline = time.monotonic() + part.ready_seconds
            while not part.ready():
                self._restart_dead()
                if part.failures >= 3 or time.monotonic() > deadline:
                    raise StackError(
                        f"{part.name} did not start; {part.log_path} ends with:\n{part.log_tail()}"
                    )
                if self._stopping.wait(POLL_SECONDS):
                    raise StackError("stopped while starting")

    def _watch(self) -> None:
        while not self._stopping.wait(POLL_SECONDS):
            with contextlib.suppress(OSError):  # out of processes or descriptors: try again
                self._restart_dead()

    def _restart_dead(self) -> None:
        """Look at every part once."""
        for part in self.parts:
            if (status := part.exit_status()) is not None:
                delay = part.plan_restart()
                self._say(
                    f"{part.name} ended with status {status} (log: {part.log_path}); restarting in {delay:g} s"
                )
            elif part.restart_at is not None and time.monotonic() >= part.restart_at:
                part.start(self._lock)
                if isinstance(part, parts.RayPart):  # at a new address, which the others read at each use
                    self.services = Services(**(vars(self.services) | {"ray_address": part.address}))
                    self.services.save(self.home)
