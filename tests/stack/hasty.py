"""The web worker with little patience, for tests."""

from stack import receiving, sending, web_worker
from stack.web_worker import Worker

web_worker.MOST_ON_DISK = 1_000_000
receiving.HEAD_SECONDS = receiving.PATIENCE_SECONDS = sending.SILENCE_SECONDS = 0.2
__all__ = ["Worker"]
