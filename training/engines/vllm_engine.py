"""Generation by vLLM's AsyncLLM. New weights arrive in flight: requests go on, with the KV cache kept or rebuilt.

    update_weights:  pause ─► load between two steps ─► label with the version ─► resume

The pause makes the version that vLLM reports for each token exact. Its 20 ms of courtesy (`pause_generation`) are
left out: nobody waits for outputs here. On a CPU the order to load is sent along with the pause: vLLM's core takes
calls in their order and only between two steps, so the load begins as the step ends, while its outputs are still dealt
with here. On GPUs a step may be under way beside the calls; there the load waits for the answer that the pause is
complete.
"""

import asyncio
import itertools
import os
import time
from collections import defaultdict
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch

from training.addresses import Group
from training.broadcast import Plan
from training.engines.shared_files import as_files, in_files
from training.engines.slot_cache import SlotCache, kv_room, refuse_too_small
from training.engines.transformers_engine import device_of
from training.errors import EngineLost, logged_error, size_of_own_log
from training.models import eos_token_ids, parameter_count
from training.rollouts import Completion, Request
from training.schema import Recipe
from training.transfer import TransferError, Weights, checksum

EXTENSION = "training.engines.vllm_worker.WeightsInFlight"
UPDATE_TIMEOUT_SECONDS = 300.0
GENERATE_TIMEOUT_SECONDS = 3600.0
LOOK_SECONDS = 1.0  # whether the engine's processes are alive
T = TypeVar("T")


@dataclass
class Prefilled:
    """Tokens of requests' beginnings until now, and how many of them were in the cache."""

    tokens: int = 0
    cached: int = 0

    def add(self, tokens: int, cached: int) -> None:
        """One request."""
        self.tokens, self.cached = self.tokens + tokens, self.cached + cached


class EngineDied(RuntimeError, EngineLost):
    """The engine's processes are gone, or do not answer; the message says which."""


@dataclass(frozen=True)
class UpdateSeconds:
    """Where an update's time went: the step under way and messages, and the load in the worker."""

    waiting: float
    loading: float


class VllmEngine:
    """One AsyncLLM. On CPU the engine core is the only child process; it dies with this one.

    kv_on_update: what happens to the KV cache of running requests when new weights come; may be changed at any time.
    update_seconds: of the newest update. prefilled: what did not have to be computed again.
    """

    update_seconds: UpdateSeconds | None = None

    def __init__(self, recipe: Recipe, folder: Path, threads: int) -> None:
        self.kv_on_update = recipe.engine.kv_on_update
        self._precision = recipe.precision
        self.prefilled = Prefilled()
        self._version = 0
        self._ids = itertools.count()
        self._open: set[str] = set()  # ids of requests on their way
        self._workers: list[int] = []
        self._is_salted = recipe.engine.prefix_caching
        self._is_repeatable = recipe.offpolicy.alternates
        self._takes_turns = device_of(recipe) == "cpu"  # vLLM schedules no step ahead there
        self._updating = asyncio.Lock()
        self._resuming: asyncio.Future[Any] | None = None
        self._stop_ids = eos_token_ids(folder)
        _set_environment(threads, on_gpu=not self._takes_turns)
        _check_room(recipe, folder)
        self._engine: Any = _started(_engine_args(recipe, folder))

    async def generate(self, requests: list[Request], temperature: float) -> list[Completion]:
        """All requests, in order, sampled at the same time. Raises EngineDied.

        Equal ones without a seed go to vLLM as one, with n samples.
        """
        positions: dict[Any, list[int]] = defaultdict(list)
        for index, request in enumerate(requests):
            alone = None if self._seed_of(request) is None else index
            positions[tuple(request.tokens), request.max_tokens, alone].append(index)
        equal = [(requests[where[0]], len(where)) for where in positions.values()]
        names = [str(next(self._ids)) for _ in equal]
        self._open.update(names)
        samples = [
            asyncio.ensure_future(self._sample(name, request, n, temperature))
            for name, (request, n) in zip(names, equal, strict=True)
        ]
        try:
            parts = await self._alive(asyncio.gather(*samples), "completions", GENERATE_TIMEOUT_SECONDS)
        finally:
            for sample in samples:
                sample.cancel()  # where one has failed, or the caller gave up; no matter where it is done
            self._open.difference_update(names)
        completions: dict[int, Completion] = {}
        for where, part in zip(positions.values(), parts, strict=True):
            completions.update(zip(where, part, strict=True))
        return [completions[index] for index in range(len(requests))]

    async def _sample(self, name: str, request: Request, n: int, temperature: float) -> list[Completion]:
        oldest, final = self._version, None
        prompt: Any = {"prompt_token_ids": request.tokens}
        if self._is_salted:  # a prefix is shared only with requests that began with the same weights; what an
            # interrupted one has made counts as begun then, as if it had gone on with the cache that it had
            prompt["cache_salt"] = str(oldest if request.begun is None else request.begun)
        sampling = _sampling(request, self._seed_of(request), n, temperature, self._stop_ids)
        async for output in self._engine.generate(prompt, sampling, request_id=name):
            final = output
        self._open.discard(name)
        if final is None:
            raise EngineDied(f"{self._words} ended a request without an answer")
        self.prefilled.add(len(request.tokens), final.num_cached_tokens or 0)
        return [_completion(output, oldest, self._version) for output in final.outputs]

    def _seed_of(self, request: Request) -> int | None:
        """Seeds cost vLLM a random state for each request; they are passed on where a run can be repeated at all."""
        if request.seed is None or not self._is_repeatable:
            return None
        return (request.seed + request.position * 0x9E3779B97F4A7C15) % 2**63

    async def update_weights(self, weights: Weights, version: int) -> None:
        """Load new weights into the running engine between two of its steps; no request is lost. Their checksum is
        taken before that, from the memory that the workers read.

        Raises TransferError, and then the old ones stay in force; EngineDied.
        """
        with as_files(weights.buckets) as files:
            if await asyncio.to_thread(lambda: checksum(in_files(files))) != weights.checksum:
                raise TransferError(
                    f"weights of version {version} did not arrive in {self._words} as they were sent"
                )

            async def load() -> float:
                return max(await self._call("load_buckets", files))

            await self._alive(self._between_steps(load, version), "new weights", UPDATE_TIMEOUT_SECONDS)

    async def join_broadcast(self, address: str, plan: Plan) -> None:
        """Have the workers get ready for the trainer's broadcasts."""
        call = self._call("join_broadcast", address, plan)
        await self._alive(call, "the weight broadcast to begin", UPDATE_TIMEOUT_SECONDS)

    async def receive_weights(self, group: Group, first_rank: int) -> None:
        """Have the workers receive the next broadcast, as this and the following ranks, while the engine goes on.
        Returns when they have begun."""
        call = self._call("receive_weights", group.number, group.size, first_rank)
        await self._alive(call, "a broadcast to begin", UPDATE_TIMEOUT_SECONDS)

    async def use_weights(self, version: int) -> None:
        """`update_weights` with what was received. Raises TransferError, and then the old ones stay in force;
        EngineDied."""

        async def use() -> float:
            answers = await self._call("use_weights")
            if complaints := [complaint for complaint, _ in answers if complaint]:
                raise TransferError(f"weights of version {version}: {'; '.join(complaints)}")
            return max(seconds for _, seconds in answers)

        await self._alive(self._between_steps(use, version), "broadcast weights", UPDATE_TIMEOUT_SECONDS)

    async def _between_steps(self, load: Callable[[], Coroutine[Any, Any, float]], version: int) -> None:
        """`load` gives its own seconds. Where it fails, the label stays what it was."""
        async with self._updating:
            if self._resuming is not None:
                await asyncio.shield(self._resuming)  # raises what went wrong with it
            began = time.perf_counter()
            try:
                loading = await self._paused(load)
            except BaseException:
                await self._engine.resume_generation()
                raise
            self._version = version
            label = asyncio.ensure_future(self._engine.update_weight_version(str(version)))
            resume = asyncio.ensure_future(self._engine.resume_generation())
            self._resuming = asyncio.gather(
                label, resume
            )  # the core takes them in this order; nobody waits until it has
            await asyncio.sleep(0)  # both are on their way before anything that the caller asks for next
            self.update_seconds = UpdateSeconds(time.perf_counter() - began - loading, loading)

    async def _paused(self, load: Callable[[], Coroutine[Any, Any, float]]) -> float:
        """What `load` gives, with the scheduler paused, and left so."""
        core, clear = self._engine.engine_core, self.kv_on_update == "rebuild"
        pause = asyncio.ensure_future(core.pause_scheduler_async(mode="keep", clear_cache=clear))
        if not self._takes_turns:
            await pause
        answers = await asyncio.gather(pause, load(), return_exceptions=True)  # both, before anything goes on
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer
        return answers[1]

    async def interrupt(self) -> None:
        """End all running calls of `generate` now, with what they have."""
        running = set(self._open)

        async def abort() -> None:
            while running & self._open:  # again: some may not have reached vLLM yet
                await self._engine.abort(running & self._open)
                await asyncio.sleep(0.001)

        await self._alive(abort(), "requests to be interrupted", UPDATE_TIMEOUT_SECONDS)

    async def until_dead(self) -> None:
        """Never returns. Raises EngineDied when its processes have died, whether or not it owes anything."""
        while not self._engine.errored:
            await asyncio.sleep(LOOK_SECONDS)
        raise EngineDied(f"{self._words} has died")

    @property
    def kv_tokens(self) -> int:
        """Tokens that the KV cache holds, as vLLM counts them."""
        return self._engine.vllm_config.cache_config.kv_cache_size_tokens or 0

    async def check_head(self) -> None:
        """ValueError where the head is less precise than the recipe says: vLLM only warns of that, and is told to be
        quiet here."""
        wanted, body = self._precision.head_generator, self._precision.generator
        found = await self._alive(self._call("head_dtype"), "the head's precision", UPDATE_TIMEOUT_SECONDS)
        if wanted == "float32" and any(dtype not in ("", wanted) for dtype in found):
            raise ValueError(
                "precision.head_generator is float32, and the installed vLLM computes this model's logits in "
                f"{found[0]} here; set precision.head_generator={body}, or engine.type=transformers"
            )

    async def processes(self) -> list[int]:
        """Process ids of the engine's workers."""
        self._workers = await self._alive(self._call("process_id"), "process ids", UPDATE_TIMEOUT_SECONDS)
        return self._workers

    def shutdown(self) -> None:
        """End the engine's processes."""
        self._engine.shutdown()
        self._engine = None  # its destructor must not wait for the interpreter's end

    @property
    def _words(self) -> str:
        workers = ", ".join(map(str, self._workers)) or "not asked for"
        return f"the vLLM engine of process {os.getpid()} (workers: {workers})"

    async def _call(self, method: str, *args: Any) -> list[Any]:
        """A method of every worker's WeightsInFlight."""
        return await self._engine.collective_rpc(method, args=args)

    async def _alive(self, work: Coroutine[Any, Any, T] | asyncio.Future[T], what: str, timeout: float) -> T:
        """The result of `work`, or EngineDied soon after the engine's processes have died, or after the timeout."""
        task, waited = asyncio.ensure_future(work), 0.0
        try:
            while not task.done():
                await asyncio.wait({task}, timeout=LOOK_SECONDS)
                waited += LOOK_SECONDS
                if not task.done() and self._engine.errored:
                    raise EngineDied(f"{self._words} has died; it owes {what}")
                if not task.done() and waited >= timeout:
                    raise EngineDied(f"{self._words} has not answered for {timeout:g} s; it owes {what}")
            return task.result()
        except Exception as error:
            if isinstance(error, EngineDied) or not self._engine.errored:
                raise
            raise EngineDied(f"{self._words} has died; it owes {what}") from error
        finally:
            task.cancel()


def _started(arguments: Any) -> Any:
    """The engine. RuntimeError with what kept its processes from starting, which vLLM says in the log alone."""
    from vllm.v1.engine.async_llm import AsyncLLM

    logged = size_of_own_log()
    try:
        return AsyncLLM.from_engine_args(arguments)
    except RuntimeError as error:
        if "root cause" not in str(error):
            raise
        why = logged_error(logged) or "the end of the run's log has the reason"
        raise RuntimeError(f"the vLLM engine did not start: {why}") from error


def _sampling(request: Request, seed: int | None, n: int, temperature: float, stop_ids: list[int]) -> Any:
    from vllm import SamplingParams
    from vllm.sampling_params import RequestOutputKind

    return SamplingParams(
        n=n,
        max_tokens=request.max_tokens,
        temperature=temperature,
        seed=seed,
        logprobs=0,  # of the sampled token alone
        flat_logprobs=True,
        stop_token_ids=stop_ids,
        detokenize=False,
        output_kind=RequestOutputKind.FINAL_ONLY,
    )


def _completion(output: Any, oldest: int, newest: int) -> Completion:
    tokens, flat = list(output.token_ids), output.logprobs
    if flat is not None and flat.token_ids != tokens:  # one entry a position, the sampled token's
        raise RuntimeError("vLLM's log-probabilities are not those of the sampled tokens")
    return Completion(
        tokens,
        list(flat.logprobs) if flat is not None else [],
        output.finish_reason == "stop",
        _versions(output, len(tokens), oldest, newest),
        interrupted=output.finish_reason == "abort",
    )


def _versions(output: Any, count: int, oldest: int, newest: int) -> list[int]:
    """Of the weights that made each token. Without vLLM's spans, the last token alone is known to be `newest`."""
    if (spans := getattr(output, "weight_versions", None)) is None:
        return [oldest] * (count - 1) + [newest] * bool(count)
    return [version_of(span.version) for span in spans for _ in range(span.start, span.end)]


def version_of(label: str) -> int:
    """vLLM's label of weights; "default" are those that it started with."""
    return 0 if label == "default" else int(label)


def _engine_args(recipe: Recipe, folder: Path) -> Any:
    from vllm.engine.arg_utils import AsyncEngineArgs

    return AsyncEngineArgs(
        model=str(folder),
        dtype=recipe.precision.generator,
        hf_overrides={"head_dtype": recipe.precision.head_generator},
        max_model_len=recipe.rollout.max_sequence_tokens,
        max_num_seqs=recipe.engine.max_sequences,
        max_num_batched_tokens=max(recipe.rollout.max_sequence_tokens, recipe.engine.max_sequences, 2048),
        kv_cache_memory_bytes=recipe.kv_cache_bytes,
        # vLLM refuses to start where less than this share of a GPU is free. A cache of a given size needs no share:
        # beside a trainer that has loaded its model less may be free.
        gpu_memory_utilization=recipe.engine.gpu_memory_utilization
        if recipe.kv_cache_bytes is None
        else 0.01,
        tensor_parallel_size=max(1, recipe.resources.gpus_per_generator),
        worker_extension_cls=EXTENSION,
        enable_prefix_caching=recipe.engine.prefix_caching,  # each request's salt is the version of its weights
        # What is shared is whole blocks; vLLM's 128 on CPU is coarse.
        block_size=32 if recipe.engine.prefix_caching and not recipe.resources.generator_gpus else None,
        logprobs_mode="processed_logprobs",  # of the distribution that was sampled from
        seed=recipe.seed,
        enforce_eager=recipe.resources.generator_gpus == 0,
        # A prefill in parts sets a seeded request's random state back, which vLLM cannot do on a CPU.
        enable_chunked_prefill=None if recipe.resources.generator_gpus else False,
        skip_tokenizer_init=True,
        disable_log_stats=True,
    )


def _check_room(recipe: Recipe, folder: Path) -> None:
    """ValueError where the KV cache would not hold one sequence: vLLM says so where nobody looks."""
    from transformers import AutoConfig

    config = AutoConfig.from_pretrained(folder, local_files_only=True)  # nosec B615
    if not hasattr(config, "num_attention_heads"):  # a model of another kind: vLLM knows
        return
    devices = max(1, recipe.resources.gpus_per_generator)
    dtype = getattr(torch, recipe.precision.generator)
    weights = (parameter_count(folder) or 0) * dtype.itemsize // devices
    token_bytes = SlotCache.row_bytes(config, 1, dtype, devices)
    refuse_too_small(kv_room(recipe, device_of(recipe), weights), recipe, token_bytes)


def _set_environment(threads: int, on_gpu: bool) -> None:
    """Before vLLM is imported: offline, quiet, and on CPU one child process without a core of its own."""
    os.environ.update(HF_HUB_OFFLINE="1", VLLM_NO_USAGE_STATS="1", DO_NOT_TRACK="1")
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
    if on_gpu:  # who has only counted GPUs cannot fork a process that uses them, and vLLM does not notice
        os.environ["VLLM_WORKER_MULTIPROC_METHOD"] = "spawn"
    else:
        os.environ["OMP_NUM_THREADS"] = str(threads)
        os.environ["VLLM_CPU_OMP_THREADS_BIND"] = "nobind"  # the system shares cores better than a pin does
        os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"  # worker inside the engine core: one import less
