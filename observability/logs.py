"""Log lines: as text for people, or, with HEADROOM_LOG_FORMAT=json, one JSON object a line for a log store.

{"time": "2026-01-31T09:30:00.125Z", "level": "INFO", "part": "worker", "logger": "worker.dispatch",
 "message": "...", "request_id": "...", "run": "...", "attempt": "1"}
"""

import json
import logging
import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from observability import context, tracing
from observability.redaction import redacted

VARIABLE = "HEADROOM_LOG_FORMAT"
MAX_DRIVER_BYTES = 32 * 1024 * 1024  # of one attempt's file of lines


def is_json() -> bool:
    """Whether log lines are JSON."""
    return os.environ.get(VARIABLE, "").strip().lower() == "json"


def part_of(arguments: Sequence[str]) -> str:
    """Which part of Headroom a command line runs: web, worker, beat, supervisor, driver, or manage."""
    path, words = Path(arguments[0] if arguments else ""), list(arguments[1:])
    program = path.parent.name if path.name == "__main__.py" else path.name  # of `python -m celery`
    if program == "celery":
        return next((word for word in words if word in ("worker", "beat")), "celery")
    if program in ("gunicorn", "uvicorn") or words[:1] == ["runserver"]:
        return "web"
    if program == "training":
        return "driver"
    return "supervisor" if words[:1] in (["up"], ["demo"]) else "manage"


class JsonFormatter(logging.Formatter):
    """One JSON object a line. `extra={"fields": {...}}` of a log call adds fields of its own."""

    def __init__(self, part: str = "") -> None:
        super().__init__()
        self._part = part or part_of(sys.argv)

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": _utc(record.created),
            "level": record.levelname,
            "part": self._part,
            "logger": record.name,
            "message": redacted(record.getMessage()),
            "pid": record.process,
        }
        line |= context.ids() | tracing.ids() | getattr(record, "fields", {})
        if record.exc_info:
            line["exception"] = redacted(self.formatException(record.exc_info))
        return json.dumps(line, ensure_ascii=False, default=str)


class TextFormatter(logging.Formatter):
    """A line for people, ending with the ids."""

    def __init__(self, format: str = "%(asctime)s %(levelname)s %(name)s %(message)s") -> None:
        super().__init__(format)

    def formatMessage(self, record: logging.LogRecord) -> str:
        found = context.ids()
        words = [f"{name}={found[name]}" for name in ("request_id", "run", "attempt") if name in found]
        return redacted(super().formatMessage(record)) + (f" [{' '.join(words)}]" if words else "")


def formatter() -> logging.Formatter:
    """As HEADROOM_LOG_FORMAT says; for `LOGGING` and gunicorn."""
    if is_json():
        logging.captureWarnings(True)  # they are lines, too
        return JsonFormatter()
    return TextFormatter()


def say(text: str, *, part: str) -> None:
    """Print a line at once, also into a pipe, in the form of the log."""
    if is_json():
        record = logging.LogRecord("stack", logging.INFO, "", 0, text, None, None)
        text = JsonFormatter(part).format(record)
    print(text, flush=True)


class LinesFile(logging.FileHandler):
    """A driver's JSON lines in a file. A file that cannot be written costs its lines, and nothing else."""

    def __init__(self, path: Path, most_bytes: int = MAX_DRIVER_BYTES) -> None:
        super().__init__(path, encoding="utf-8", delay=True)
        self.setFormatter(JsonFormatter("driver"))
        self._most_bytes = most_bytes

    def _open(self) -> Any:
        descriptor = os.open(self.baseFilename, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        return os.fdopen(descriptor, "a", encoding=self.encoding)

    def emit(self, record: logging.LogRecord) -> None:
        try:
            if self.stream is None or self.stream.tell() < self._most_bytes:
                super().emit(record)
        except OSError:
            self.handleError(record)

    def handleError(self, record: logging.LogRecord) -> None:
        """Says nothing: whoever logs has other work."""


def driver_lines(run_dir: Path) -> LinesFile | None:
    """A driver's lines as JSON in RUN_DIR/attempt-N.jsonl, beside the text that the run's page shows; None where that
    was not asked for."""
    if not is_json():
        return None
    attempt = context.ids().get("attempt", "")
    handler = LinesFile(run_dir / f"attempt-{attempt if attempt.isdecimal() else 1}.jsonl")
    logging.getLogger().addHandler(handler)
    return handler


def say_in_lines(text: str) -> None:
    """To the file of `driver_lines` alone: what was printed for people already."""
    record = logging.LogRecord("training", logging.ERROR, "", 0, text, None, None)
    for handler in logging.getLogger().handlers:
        if isinstance(handler, LinesFile):
            handler.handle(record)


def _utc(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
