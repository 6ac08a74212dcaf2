"""The driver's handles on actors. Their errors are one readable line that names the part."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import ray
from ray.exceptions import ActorDiedError, ActorUnavailableError, RayActorError, RayError, RayTaskError

from training.cluster.placement import ClusterError, PartGone
from training.errors import last_line, telling_line
from training.rollouts import Completion, Request
from training.trainer.batching import Batch
from training.waiting import WaitTimeout, within

T = TypeVar("T")

CAUSES = (  # in what Ray says of a death -> in our words; the first that occurs counts
    ("running low on memory", "its node ran out of memory, and Ray ended it"),
    ("memory monitor", "its node ran out of memory, and Ray ended it"),
    ("node has died", "its node is gone"),
    ("node was terminated", "its node is gone"),
    # Whoever reads this is the driver, so it is not gone: the raylet beside it is.
    ("owner has died", "Ray on the driver's machine (raylet) has ended or was cut off"),
    ("ray.kill", "it was killed through Ray"),
    ("connection error", "killed, for instance for lack of memory, or crashed"),
)


@dataclass(eq=False)
class Part:
    """An engine or a rank behind its actor. `is_single`: whoever asks it knows whose errors it gets. `gone`: what is
    raised once it has died. `death`: of an engine; is done once its end is known."""

    name: str
    actor: Any
    is_single: bool = True
    process: int = 0
    host: str = ""
    gone: type[PartGone] = PartGone
    death: Any = None

    def __str__(self) -> str:
        return f"{self.name} (process {self.process} on {self.host})" if self.process else self.name

    def submit(self, method: str, *args: Any) -> Any:
        """Have the actor do it, after what was submitted before. Returns a reference for `result`."""
        return getattr(self.actor, method).remote(*args)

    async def result(self, reference: Any) -> Any:
        """What came out. Raises the actor's own error, or ClusterError where the part is gone."""
        try:
            return await reference
        except RayTaskError as error:
            raise self._own_error(error) from None
        except RayError as error:
            raise self.gone(f"{self} {why_gone(error)}") from None

    async def call(self, method: str, *args: Any) -> Any:
        """`submit` and its `result`."""
        return await self.result(self.submit(method, *args))

    def _own_error(self, error: RayTaskError) -> Exception:
        """What was raised there, without Ray's traceback; of one of several parts, with its name."""
        cause = error.cause if isinstance(error.cause, Exception) else None
        if cause is not None and self.is_single:
            return cause
        named = ClusterError(f"{self}: {telling_line(cause or error)}")
        named.__cause__ = cause
        return named


def why_gone(error: Exception) -> str:
    """What happened to an actor, by what Ray says of it."""
    text = str(error)
    if isinstance(error, ActorUnavailableError):
        return "cannot be reached"
    if not isinstance(error, RayActorError | ActorDiedError):
        return f"failed: {text.splitlines()[0] if text else type(error).__name__}"
    return "died: " + next((words for sign, words in CAUSES if sign in text), last_line(error))


async def first_error_or_all(results: Sequence[Awaitable[Any]]) -> list[Any]:
    """All results; an error of any is raised as soon as it is there, and nobody waits for the rest."""
    tasks = [asyncio.ensure_future(result) for result in results]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()


async def in_time(part: Part, what: str, work: Awaitable[T], seconds: float) -> T:
    """What the part does; where it is late, it counts as gone."""
    try:
        return await within(work, what=f"{part} to {what}", timeout=seconds)
    except WaitTimeout as error:
        raise part.gone(str(error)) from None


async def end_of(part: Part, method: str, *args: Any) -> Exception:
    """What a call that never returns ends with."""
    try:
        await part.call(method, *args)
    except Exception as error:
        return error
    return part.gone(f"{part} has ended")


class SentWeights(Protocol):
    """What `RemoteTrainer.weights` gives: weights on their way to the engines."""

    async def deliver(self, engine: Part, version: int) -> int | None:
        """Have one engine take them; returns when they are in force there: their version, where that is another."""


@dataclass(frozen=True)
class StoredWeights:
    """In the object store, packed by rank 0. They never pass through the driver."""

    packed: Any  # reference
    others: list[tuple[Part, Any]]  # what the other ranks did for it

    async def deliver(self, engine: Part, version: int) -> None:
        """See SentWeights."""
        await first_error_or_all(
            [
                engine.call("call", "update_weights", self.packed, version),
                *(part.result(reference) for part, reference in self.others),
            ]
        )


class RemoteGenerator:
    """An engine behind an actor: a training.rollouts.Generator."""

    def __init__(self, part: Part) -> None:
        self.part = part

    @property
    def name(self) -> str:
        """Of the part."""
        return str(self.part)

    async def generate(self, requests: list[Request], temperature: float) -> list[Completion]:
        """See training.rollouts.Generator."""
        return await self.part.call("call", "generate", requests, temperature)

    async def update_weights(self, weights: Any, version: int) -> int | None:
        """`weights` is what RemoteTrainer.weights gave."""
        return await weights.deliver(self.part, version)

    async def interrupt(self) -> None:
        """See training.rollouts.Generator."""
        await self.part.call("call", "interrupt")


@dataclass
class RemoteTrainer:
    """All ranks behind their actors. Each gets the same calls in the same order; rank 0's answer counts.

    All methods but `weights` are awaitable; the ranks are called at once, not when the answer is awaited.
    `version`: updates made after the calls so far. `broadcast`: begins to send the weights in that way.
    """

    ranks: list[Part]
    broadcast: Callable[[], SentWeights] | None = None
    version: int = 0

    def train_step(self, batch: Batch) -> Awaitable[Any]:
        """See training.trainer.trainer.Trainer."""
        self.version += 1
        return self._on_all("train_step", self._shared(batch))

    def logp(self, batch: Batch) -> Awaitable[Any]:
        """See training.trainer.trainer.Trainer."""
        return self._on_all("logp", self._shared(batch))

    def weights(self) -> SentWeights:
        """The weights after the calls made so far, for `update_weights` of every engine."""
        if self.broadcast is not None:
            return self.broadcast()
        first, *others = [(part, part.submit("call", "weights")) for part in self.ranks]
        return StoredWeights(first[1], others)

    def save(self, path: str) -> Awaitable[None]:
        """Of the state after the calls made so far; those made from now on do not wait for its end."""
        begun = [(part, part.submit("call", "begin_save", path)) for part in self.ranks]
        ended = [(part, part.submit("end_save", reference)) for part, reference in begun]
        return _first_rank_of(begun + ended)

    async def load(self, path: str) -> int:
        """See training.trainer.trainer.Trainer."""
        self.version = await self._on_all("load", path)
        return self.version

    async def export(self, checkpoint: str, base_model: str, out: str, dtype: str) -> None:
        """Rank 0 writes a checkpoint's model in Hugging Face format; see training.export."""
        await self.ranks[0].call("export", checkpoint, base_model, out, dtype)

    def _shared(self, batch: Batch) -> Any:
        """Stored once, however many ranks there are."""
        return ray.put(batch) if len(self.ranks) > 1 else batch

    def _on_all(self, method: str, *args: Any) -> Awaitable[Any]:
        return _first_rank_of([(part, part.submit("call", method, *args)) for part in self.ranks])


async def _first_rank_of(calls: list[tuple[Part, Any]]) -> Any:
    results = await first_error_or_all([part.result(reference) for part, reference in calls])
    return results[0]
