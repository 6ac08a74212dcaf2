"""Generation by plain transformers and torch: continuous batching over one KV cache, weights change between tokens.

Where an engine runs.
"""

import asyncio
from collections import deque
from pathlib import Path

import torch
from torch import Tensor

from training.addresses import Group
from training.broadcast import Plan
from training.checkpoint_names import in_files, put_together
from training.engines.decoder import Decoder
from training.engines.intake import Intake
from training.engines.rows import Call, Job
from training.rollouts import Completion, Request
from training.schema import Recipe
from training.transfer import TransferError, Weights, checksum, unpack


def device_of(recipe: Recipe) -> str:
    """cuda where the recipe gives the generator GPUs, else cpu. RuntimeError where those GPUs are not there."""
    wanted = recipe.resources.gpus_per_generator
    there = torch.cuda.device_count() if wanted else 0
    if there < wanted:
        raise RuntimeError(
            f"resources.generator_gpus is {recipe.resources.generator_gpus}: an engine needs {wanted} CUDA "
            f"device{'s' if wanted > 1 else ''}, {there} visible"
        )
    return "cuda" if wanted else "cpu"


class TransformersEngine:
    """Decodes all requests together; new ones join and finished ones leave between two tokens.

    kv_on_update: what happens to the KV cache of running requests when new weights come; may be changed at any time.
    """

    def __init__(self, recipe: Recipe, folder: Path, threads: int) -> None:
        torch.set_num_threads(threads)
        self._device = device_of(recipe)
        self._decoder = Decoder(recipe, folder, self._device)
        self.kv_on_update = recipe.engine.kv_on_update
        model = self._decoder.model
        self._own = [
            (value, in_files(model, name, value.to("meta"))) for name, value in model.state_dict().items()
        ]
        self._waiting: deque[Job] = deque()
        self._decoding: asyncio.Task | None = None
        self._version = 0
        self._intake: Intake | None = None

    async def generate(self, requests: list[Request], temperature: float) -> list[Completion]:
        """All requests, in order. ValueError where one cannot fit into the context."""
        self._check(requests, temperature)
        if not requests:
            return []
        call = Call(len(requests))
        self._waiting.extend(Job(request, temperature, call, i) for i, request in enumerate(requests))
        if self._decoding is None or self._decoding.done():
            self._decoding = asyncio.create_task(self._decode_all())
        return await call.future  # where the caller gives up, so does the future, and its rows leave

    def _check(self, requests: list[Request], temperature: float) -> None:
        limit, vocabulary = self._decoder.max_sequence_tokens, self._decoder.model.config.vocab_size
        for request in requests:
            if not request.tokens or request.max_tokens < 1:
                raise ValueError("a request needs at least one token, and room for one more")
            if len(request.tokens) + request.max_tokens > limit:
                raise ValueError(
                    f"{len(request.tokens)} + {request.max_tokens} tokens do not fit into the context of {limit}"
                )
            if not 0 <= min(request.tokens) <= max(request.tokens) < vocabulary:
                raise ValueError(f"a request has tokens outside the vocabulary of {vocabulary}")
        if not temperature > 0:
            raise ValueError(f"the temperature must be more than 0, not {temperature}")

    async def _decode_all(self) -> None:
        """Until nothing waits and nothing runs. The event loop has its turn between two tokens."""
        while self._waiting or len(self._decoder):
            try:
                while self._waiting and self._waiting[0].call.is_over:
                    self._waiting.popleft()
                if count := self._decoder.num_joining(len(self._waiting)):
                    self._decoder.join([self._waiting.popleft() for _ in range(count)])
                if len(self._decoder):
                    self._decoder.step(self._version)
            except Exception as error:
                self._decoder.fail(error)
                while self._waiting:
                    self._waiting.popleft().call.fail(error)
            await asyncio.sleep(0)

    async def update_weights(self, weights: Weights, version: int) -> None:
        """Load new weights between two tokens, of which more come while they are checked. Raises TransferError, and
        then the old ones stay in force."""
        new = dict(unpack(weights.buckets))
        if await asyncio.to_thread(checksum, new.items()) != weights.checksum:
            raise TransferError(f"weights of version {version} did not arrive as they were sent")
        self._load(new, version)

    def _load(self, new: dict[str, Tensor], version: int) -> None:
        shapes = {name: part.shape for _, parts in self._own for name, part in parts.items()}
        lacking = [name for name in shapes if name not in new and name != "lm_head.weight"]
        unfit = [name for name, tensor in new.items() if shapes.get(name) != tensor.shape]
        if lacking or unfit:
            raise TransferError(f"weights of version {version} do not fit: missing {lacking}, unfit {unfit}")
        for value, parts in self._own:
            if new.keys() >= parts.keys():  # all but a head that is tied
                put_together([new[name] for name in parts], value)
        self._version = version
        if self.kv_on_update == "rebuild" and len(self._decoder):
            self._decoder.rebuild()

    async def join_broadcast(self, address: str, plan: Plan) -> None:
        """Get ready for the trainer's broadcasts."""
        self._intake = await asyncio.to_thread(Intake, address, plan, self._device)

    async def receive_weights(self, group: Group, first_rank: int) -> None:
        """Have the next broadcast arrive, as this rank of the group, while generation goes on."""
        if self._intake is None:
            raise TransferError("the engine has not joined a weight broadcast")
        self._intake.begin(group, first_rank)

    async def use_weights(self, version: int) -> None:
        """`update_weights` with what has arrived. Raises TransferError, and then the old ones stay in force."""
        if self._intake is None:
            raise TransferError("the engine has not joined a weight broadcast")
        self._load(dict(await asyncio.to_thread(self._intake.take)), version)

    async def interrupt(self) -> None:
        """End all running calls of `generate` now, with what they have."""
        self._decoder.interrupt()
        while self._waiting:
            self._waiting.popleft().answer(Completion.unstarted())

    async def until_dead(self) -> None:
        """Never returns: it has no process but this one."""
        await asyncio.Event().wait()

    @property
    def kv_tokens(self) -> int:
        """Tokens that the KV cache holds."""
        return self._decoder.kv_tokens

    async def check_head(self) -> None:
        """Its head is this package's own."""

    async def processes(self) -> list[int]:
        """It has none but this one."""
        return []

    def shutdown(self) -> None:
        """Nothing to end."""
