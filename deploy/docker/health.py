"""What the health checks of the containers ask. Status 0: well; 1: not, with the reason. Standard library only.

health.py live URL    the web server answers
health.py web URL     the web server and its database answer; what it says of the other parts is theirs to mend
health.py beat URL    the web server says that beat's newest round ended lately
health.py worker FILE the worker has made the file that says that it takes tasks
"""

import json
import sys
import urllib.error
import urllib.request
from pathlib import Path

SECONDS = 5.0


ASKED = {"live": "/healthz/live", "web": "/healthz/ready", "beat": "/healthz"}


def answer(url: str) -> dict[str, str]:
    """Status 503 is an answer, too. Raises OSError or ValueError for everything else."""
    try:
        with urllib.request.urlopen(url, timeout=SECONDS) as said:  # nosec B310  # given by us
            return json.load(said)
    except urllib.error.HTTPError as error:
        if error.code != 503:
            raise
        return json.load(error)


def problem(part: str, where: str) -> str:
    """Why a part is not well, in words; empty where it is."""
    if part == "worker":
        return "" if Path(where).exists() else f"{where} is not there yet"
    try:
        said = answer(where.rstrip("/") + ASKED[part])
    except (OSError, ValueError) as error:
        return f"{where}: {error}"
    word = {"live": "status", "web": "database"}.get(part, part)
    return "" if said.get(word) == "ok" else f"{word}: {said.get(word)}"


if __name__ == "__main__":
    found = problem(*sys.argv[1:3])
    sys.exit(found or 0)
