"""The web worker with little patience, for tests."""

from stack import receiving, sending
from stack.web_worker import Worker

receiving.HEAD_SECONDS = receiving.PATIENCE_SECONDS = sending.SILENCE_SECONDS = 0.2
__all__ = ["Worker"]
