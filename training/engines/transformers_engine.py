"""Generation by plain transformers and torch, where vLLM is missing. Slow, but the same interface and rules."""

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache

from training.models import eos_token_ids
from training.network import DTYPES, head_logits, load_network
from training.rollouts import Completion, Request
from training.schema import Recipe
from training.transfer import TransferError, Weights, checksum, unpack


@dataclass
class _Job:
    """A request on its way."""

    request: Request
    temperature: float
    future: asyncio.Future
    tokens: list[int] = field(default_factory=list)
    logp: list[float] = field(default_factory=list)
    versions: list[int] = field(default_factory=list)
    finished: bool = False

    @property
    def is_done(self) -> bool:
        return self.finished or len(self.tokens) >= self.request.max_tokens


class TransformersEngine:
    """Decodes waiting requests of equal prompt length together; weights change between two tokens."""

    def __init__(self, recipe: Recipe, folder: Path, threads: int) -> None:
        torch.set_num_threads(threads)
        self._device = "cuda" if recipe.resources.generator_gpus else "cpu"
        network: Any = load_network(folder, self._device)
        self._model = network.to(DTYPES[recipe.precision.generator]).eval()
        self._head_dtype = DTYPES[recipe.precision.head_generator]
        self._max_sequences = recipe.engine.max_sequences
        self._eos = set(eos_token_ids(folder))
        self._random = torch.Generator(self._device).manual_seed(recipe.seed)
        self._waiting: list[_Job] = []
        self._decoding: asyncio.Task | None = None
        self._version = 0
        self._interrupted = False

    async def generate(self, requests: list[Request], temperature: float) -> list[Completion]:
        """All requests, in order."""
        loop = asyncio.get_running_loop()
        jobs = [_Job(request, temperature, loop.create_future()) for request in requests]
        self._waiting.extend(jobs)
        if self._decoding is None or self._decoding.done():
            self._decoding = loop.create_task(self._decode_all())
        return list(await asyncio.gather(*(job.future for job in jobs)))

    async def update_weights(self, weights: Weights, version: int) -> None:
        """Load new weights between two tokens: running requests go on with the KV cache they have."""
        new = dict(unpack(weights.buckets))
        if checksum(new.items()) != weights.checksum:
            raise TransferError(f"weights of version {version} did not arrive as they were sent")
        missing, unexpected = self._model.load_state_dict(new, strict=False)
        if unexpected or any(name != "lm_head.weight" for name in missing):
            raise TransferError(f"weights do not fit: missing {missing}, unexpected {unexpected}")
        self._version = version

    async def interrupt(self) -> None:
        """End all running calls of `generate` now, with what they have."""
        self._interrupted = True

    async def processes(self) -> list[int]:
        """It has none but this one."""
        return []

    def shutdown(self) -> None:
        """Nothing to end."""

    async def _decode_all(self) -> None:
        while self._waiting:
            key = (len(self._waiting[0].request.tokens), self._waiting[0].temperature)
            same = [job for job in self._waiting if (len(job.request.tokens), job.temperature) == key]
            jobs = same[: self._max_sequences]
            self._waiting = [job for job in self._waiting if job not in jobs]
            try:
                await self._decode(jobs)
            except Exception as error:
                for job in jobs:
                    if not job.future.done():
                        job.future.set_exception(error)

    async def _decode(self, jobs: list[_Job]) -> None:
        """One batch to its end, a token at a time; the event loop runs between tokens."""
        cache = DynamicCache()
        tokens = torch.tensor([job.request.tokens for job in jobs], device=self._device)
        while not all(job.is_done for job in jobs):
            chosen, logp = self._next_tokens(tokens, cache, jobs[0].temperature)
            for job, token, value in zip(jobs, chosen.tolist(), logp.tolist(), strict=True):
                if not job.is_done:
                    job.tokens.append(token)
                    job.logp.append(value)
                    job.versions.append(self._version)
                    job.finished = token in self._eos
            tokens = chosen.unsqueeze(1)
            await asyncio.sleep(0)
        for job in jobs:
            job.future.set_result(Completion(job.tokens, job.logp, job.finished, job.versions))

    @torch.no_grad()
    def _next_tokens(self, tokens: Tensor, cache: DynamicCache, temperature: float) -> tuple[Tensor, Tensor]:
        """(sampled token [N], its log-probability [N])."""
        hidden = self._model.get_decoder()(input_ids=tokens, past_key_values=cache, use_cache=True)
        logits = head_logits(self._model, hidden.last_hidden_state[:, -1], self._head_dtype)
        log_probabilities = (logits / temperature).log_softmax(dim=-1)
        chosen = torch.multinomial(log_probabilities.exp(), 1, generator=self._random)
        return chosen.squeeze(1), log_probabilities.gather(1, chosen).squeeze(1)
