"""A real Headroom server on a real PostgreSQL for clients that live in another environment.

Run by Headroom's own Python: `python -m tests.trackers.server`. Prints one line of JSON: the address and a token for
each scope. A line "kill" on standard input kills the web server as a power cut would and starts it again, and answers
"again"; the end of the input ends it all.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.home import USER, bare_home
from stack.part import Part

START_SECONDS = 120.0


def started(part: Part) -> "subprocess.Popen[bytes]":
    with part.log_path.open("ab") as log:
        process = subprocess.Popen(
            part.command(),
            env=os.environ | part.environment,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    deadline = time.monotonic() + START_SECONDS
    while not part.ready():
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"the web server did not start:\n{part.log_tail()}")
        time.sleep(0.1)
    return process


def tokens() -> dict[str, str]:
    from webapp.identity.accounts.models import User
    from webapp.identity.accounts.services import create_token, default_project

    user = User.objects.get(username=USER)
    return {
        scope: create_token(user=user, project=default_project(), scope=scope) for scope in ("read", "write")
    }


def say(what: Any) -> None:
    print(json.dumps(what), flush=True)


def main() -> None:
    from stack.parts import web_part
    from stack.ports import free_port

    with bare_home() as folder:
        given = tokens()
        logs = Path(folder) / "logs"
        logs.mkdir(exist_ok=True)
        port = free_port()
        part = web_part(logs, "127.0.0.1", port, {})
        process = started(part)
        try:
            say({"url": f"http://127.0.0.1:{port}"} | given)
            for line in sys.stdin:
                if line.strip() == "kill":
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait(20)
                    process = started(part)
                    say("again")
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(20)


if __name__ == "__main__":
    main()
