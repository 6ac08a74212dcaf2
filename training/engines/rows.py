"""Sequences that are being decoded, in rows 0 ... n - 1 of plain arrays; a row that ends is filled by the last one.

Sampling without a random state: token `position` of the sequence with `seed` always gets the same uniform number.

So what a request gives depends neither on what runs beside it nor on the order in which requests come.
"""

import asyncio
import random
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from training.rollouts import Completion, Request

_UINT64 = np.uint64
_BITS = (
    23  # of a uniform number: the largest, 1 - 2**-23, times a float32 sum still rounds to less than the sum
)


def uniforms(seeds: np.ndarray, first: np.ndarray, count: int) -> np.ndarray:
    """[N, count] float32 in [0, 1): of positions first[i] ... first[i] + count - 1 of the sequence seeds[i]."""
    positions = first.astype(_UINT64)[:, None] + np.arange(count, dtype=_UINT64)
    start = _splitmix64(seeds.astype(_UINT64))[:, None]
    return (_splitmix64(start ^ _splitmix64(positions)) >> _UINT64(64 - _BITS)).astype(np.float32) / 2**_BITS


def _splitmix64(x: np.ndarray) -> np.ndarray:
    """Steele, Lea and Flood, "Fast splittable pseudorandom number generators" (2014): one step, from state x."""
    x = x + _UINT64(0x9E3779B97F4A7C15)  # unsigned integers wrap around
    x = (x ^ (x >> _UINT64(30))) * _UINT64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> _UINT64(27))) * _UINT64(0x94D049BB133111EB)
    return x ^ (x >> _UINT64(31))


def choose(logits: Tensor, uniform: Tensor) -> tuple[Tensor, Tensor]:
    """(token [N], its log-probability [N]) by the inverse of the distribution function. logits: [N, V] float32."""
    normalizer = logits.logsumexp(dim=-1, keepdim=True)
    cumulative = (logits - normalizer).exp_().cumsum(dim=-1)
    threshold = uniform.unsqueeze(1) * cumulative[:, -1:]
    # The first that is larger, so never one of weight 0. None is where a logit is NaN; then so is the logp.
    chosen = torch.searchsorted(cumulative, threshold, right=True).clamp_(max=logits.shape[1] - 1)
    return chosen.squeeze(1), (logits.gather(1, chosen) - normalizer).squeeze(1)


class Call:
    """One call of `generate`: done when all of its requests are."""

    def __init__(self, num_requests: int) -> None:
        self.future: asyncio.Future[list[Completion]] = asyncio.get_running_loop().create_future()
        self._completions: list[Completion | None] = [None] * num_requests
        self._num_open = num_requests

    @property
    def is_over(self) -> bool:
        """Answered, failed or given up by its caller."""
        return self.future.done()

    def answer(self, index: int, completion: Completion) -> None:
        """One request is done."""
        self._completions[index] = completion
        self._num_open -= 1
        if not self._num_open and not self.future.done():
            self.future.set_result([done for done in self._completions if done is not None])

    def fail(self, error: BaseException) -> None:
        """No answer will come."""
        if not self.future.done():
            self.future.set_exception(error)


@dataclass(frozen=True)
class Job:
    """A request on its way."""

    request: Request
    temperature: float
    call: Call
    index: int  # in the call

    def answer(self, completion: Completion) -> None:
        """Hand it to the call."""
        self.call.answer(self.index, completion)


class Rows:
    """The state of all running sequences. A row's tokens are prompt and response: column i is token i."""

    def __init__(self, slots: int, columns: int, seed: int) -> None:
        self._random = random.Random(seed)  # nosec B311  # of requests that bring no seed
        self.slots, self.columns = slots, columns
        self.jobs: list[Job] = []
        self.tokens = np.zeros((slots, columns), np.int64)
        self.lengths = np.zeros(slots, np.int64)  # tokens known
        self.temperatures = np.ones(slots, np.float32)
        self._logp = np.zeros((slots, columns), np.float32)
        self._versions = np.zeros((slots, columns), np.int64)
        self._uniforms = np.zeros((slots, columns), np.float32)
        self._ends = np.zeros(slots, np.int64)  # length at which max_tokens are made

    def __len__(self) -> int:
        return len(self.jobs)

    def add(self, jobs: list[Job]) -> slice:
        """The rows that these jobs get."""
        rows = slice(len(self), len(self) + len(jobs))
        requests = [job.request for job in jobs]
        for row, request in enumerate(requests, start=rows.start):
            self.tokens[row, : len(request.tokens)] = request.tokens
        self.lengths[rows] = starts = np.array([len(request.tokens) for request in requests])
        self._ends[rows] = starts + [request.max_tokens for request in requests]
        self.temperatures[rows] = [job.temperature for job in jobs]
        seeds = [self._random.getrandbits(63) if r.seed is None else r.seed % (1 << 64) for r in requests]
        numbers = uniforms(
            np.array(seeds, np.uint64),
            np.array([request.position for request in requests]),
            max(request.max_tokens for request in requests),
        )
        for row, start, end, own in zip(
            range(rows.start, rows.stop), starts, self._ends[rows], numbers, strict=True
        ):
            self._uniforms[row, start:end] = own[: end - start]
        self.jobs += jobs
        return rows

    def uniforms(self) -> np.ndarray:
        """For the next token of each row, [n] float32."""
        return self._uniforms[np.arange(len(self)), self.lengths[: len(self)]]

    def append(self, tokens: np.ndarray, logp: np.ndarray, version: int) -> np.ndarray:
        """One token a row. Returns which rows have all the tokens they may have, [n] bool."""
        n = len(self)
        where = np.arange(n), self.lengths[:n]
        self.tokens[where], self._logp[where], self._versions[where] = tokens, logp, version
        self.lengths[:n] += 1
        return self.lengths[:n] >= self._ends[:n]

    def completion(self, row: int, *, finished: bool, interrupted: bool = False) -> Completion:
        """What a row has made so far."""
        made = slice(len(self.jobs[row].request.tokens), self.lengths[row])
        return Completion(
            self.tokens[row, made].tolist(),
            self._logp[row, made].tolist(),
            finished,
            self._versions[row, made].tolist(),
            interrupted,
        )

    def remove(self, gone: np.ndarray) -> tuple[list[int], list[int]]:
        """Take rows out and close the holes: (rows that move, where they move to)."""
        left = len(self) - len(gone)
        targets = [int(row) for row in gone if row < left]
        sources = sorted(set(range(left, len(self))) - set(gone.tolist()))
        for array in (
            self.tokens,
            self.lengths,
            self.temperatures,
            self._logp,
            self._versions,
            self._uniforms,
            self._ends,
        ):
            array[targets] = array[sources]
        for source, target in zip(sources, targets, strict=True):
            self.jobs[target] = self.jobs[source]
        del self.jobs[left:]
        return sources, targets
