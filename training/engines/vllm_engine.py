"""Generation by vLLM's AsyncLLM. New weights arrive in flight: running requests go on with their stale KV cache."""

import asyncio
import itertools
import os
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

from safetensors.torch import save as to_safetensors

from training.models import eos_token_ids
from training.rollouts import Completion, Request
from training.schema import Recipe
from training.transfer import Weights, unpack

EXTENSION = "training.engines.vllm_worker.WeightsInFlight"
UPDATE_TIMEOUT_SECONDS = 300.0


class VllmEngine:
    """One AsyncLLM. On CPU the engine core is the only child process; it dies with this one."""

    def __init__(self, recipe: Recipe, folder: Path, threads: int) -> None:
        self._version = 0
        self._ids = itertools.count()
        self._stop_ids = eos_token_ids(folder)
        _set_environment(threads, on_gpu=recipe.resources.generator_gpus > 0)
        from vllm.v1.engine.async_llm import AsyncLLM

        self._engine: Any = AsyncLLM.from_engine_args(_engine_args(recipe, folder))

    async def generate(self, requests: list[Request], temperature: float) -> list[Completion]:
        """All requests, in order, sampled at the same time. Equal ones go to vLLM as one, with n samples."""
        positions: dict[tuple[tuple[int, ...], int], list[int]] = defaultdict(list)
        for position, request in enumerate(requests):
            positions[tuple(request.tokens), request.max_tokens].append(position)
        equal = [(requests[where[0]], len(where)) for where in positions.values()]
        parts = await asyncio.gather(*(self._sample(request, n, temperature) for request, n in equal))
        completions: dict[int, Completion] = {}
        for where, part in zip(positions.values(), parts, strict=True):
            completions.update(zip(where, part, strict=True))
        return [completions[position] for position in range(len(requests))]

    async def _sample(self, request: Request, n: int, temperature: float) -> list[Completion]:
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        sampling = SamplingParams(
            n=n,
            max_tokens=request.max_tokens,
            temperature=temperature,
            logprobs=0,  # of the sampled token alone
            flat_logprobs=True,
            stop_token_ids=self._stop_ids,
            detokenize=False,
            output_kind=RequestOutputKind.FINAL_ONLY,
        )
        oldest, final = self._version, None
        prompt: Any = {"prompt_token_ids": request.tokens}
        async for output in self._engine.generate(prompt, sampling, request_id=str(next(self._ids))):
            final = output
        if final is None:
            raise RuntimeError("vLLM ended a request without an answer")
        return [_completion(output, oldest, self._version) for output in final.outputs]

    async def update_weights(self, weights: Weights, version: int) -> None:
        """Load new weights into the running engine between two of its steps; no request is lost."""
        with tempfile.NamedTemporaryFile(dir=_shared_memory(), suffix=".safetensors") as file:
            file.write(to_safetensors(dict(unpack(weights.buckets))))
            file.flush()
            call = self._engine.collective_rpc("update_from_file", args=(file.name,))
            await asyncio.wait_for(call, UPDATE_TIMEOUT_SECONDS)
        self._version = version

    async def interrupt(self) -> None:
        """End all running calls of `generate` now, with what they have."""
        await self._engine.pause_generation(mode="abort")
        await self._engine.resume_generation()

    async def processes(self) -> list[int]:
        """Process ids of the engine's workers."""
        return await self._engine.collective_rpc("process_id")

    def shutdown(self) -> None:
        """End the engine's processes."""
        self._engine.shutdown()
        self._engine = None  # its destructor must not wait for the interpreter's end


def _completion(output: Any, oldest: int, newest: int) -> Completion:
    tokens, flat = list(output.token_ids), output.logprobs
    if flat.token_ids != tokens:  # one entry a position, the sampled token's
        raise RuntimeError("vLLM's log-probabilities are not those of the sampled tokens")
    versions = [oldest] * (len(tokens) - 1) + [newest] * bool(tokens)
    return Completion(tokens, list(flat.logprobs), output.finish_reason == "stop", versions)


def _engine_args(recipe: Recipe, folder: Path) -> Any:
    from vllm.engine.arg_utils import AsyncEngineArgs

    return AsyncEngineArgs(
        model=str(folder),
        dtype=recipe.precision.generator,
        hf_overrides={"head_dtype": recipe.precision.head_generator},
        max_model_len=recipe.rollout.max_sequence_tokens,
        max_num_seqs=recipe.engine.max_sequences,
        max_num_batched_tokens=max(recipe.rollout.max_sequence_tokens, recipe.engine.max_sequences, 2048),
        kv_cache_memory_bytes=recipe.engine.kv_cache_mib << 20,
        tensor_parallel_size=max(1, recipe.resources.gpus_per_generator),
        worker_extension_cls=EXTENSION,
        enable_prefix_caching=False,  # a cached prefix would outlive the weights that made it
        logprobs_mode="processed_logprobs",  # of the distribution that was sampled from
        seed=recipe.seed,
        enforce_eager=recipe.resources.generator_gpus == 0,
        skip_tokenizer_init=True,
        disable_log_stats=True,
    )


def _set_environment(threads: int, on_gpu: bool) -> None:
    """Before vLLM is imported: offline, quiet, and on CPU one child process without a core of its own."""
    os.environ.update(HF_HUB_OFFLINE="1", VLLM_NO_USAGE_STATS="1", DO_NOT_TRACK="1")
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
    if not on_gpu:
        os.environ["OMP_NUM_THREADS"] = str(threads)
        os.environ["VLLM_CPU_OMP_THREADS_BIND"] = "nobind"  # the system shares cores better than a pin does
        os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"  # worker inside the engine core: one import less


def _shared_memory() -> str | None:
    return "/dev/shm" if os.path.isdir("/dev/shm") else None
