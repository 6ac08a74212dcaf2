"""Optimiser, precision, engine and devices; when to evaluate and to save."""

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from training.schema.base import NonNegativeFloat, Positive, PositiveFloat, Section

Dtype = Literal["float32", "bfloat16", "float16"]


class Optimizer(Section):
    lr: PositiveFloat = Field(default=5e-7, description="AdamW learning rate after warm-up.")
    warmup_steps: Annotated[int, Field(ge=0)] = Field(default=100, description="Linear warm-up, updates.")
    schedule: Literal["constant", "cosine"] = Field(
        default="constant", description="After the warm-up: constant, or half a cosine down to min_lr_share."
    )
    decay_steps: Positive | None = Field(
        default=None, description="cosine: step at which the lowest learning rate is reached."
    )
    min_lr_share: Annotated[float, Field(ge=0, le=1)] = Field(
        default=0.1, description="cosine: lowest learning rate, as a share of lr."
    )
    betas: tuple[float, float] = Field(default=(0.9, 0.95), description="AdamW moment decay.")
    eps: PositiveFloat = Field(default=1e-15, description="AdamW epsilon.")
    weight_decay: NonNegativeFloat = Field(default=0.01, description="AdamW decoupled weight decay.")
    max_grad_norm: PositiveFloat = Field(default=1.0, description="Gradient norm clip.")
    offload_moments: bool = Field(
        default=False,
        description="AdamW's moments stay in the host's memory, 8 bytes a parameter less on the GPUs; every update "
        "fetches them and puts them back.",
    )

    @model_validator(mode="after")
    def _schedule_is_complete(self) -> "Optimizer":
        if any(not 0 <= beta < 1 for beta in self.betas):
            raise ValueError("betas must be from 0 to below 1")
        if self.schedule == "cosine":
            if self.decay_steps is None:
                raise ValueError("schedule cosine needs decay_steps: a budget in hours does not say how many")
            if self.decay_steps <= self.warmup_steps:
                raise ValueError("decay_steps must be above warmup_steps")
        return self


class Precision(Section):
    generator: Dtype = Field(default="bfloat16", description="Weights and activations of the generator.")
    trainer: Dtype = Field(
        default="bfloat16", description="Activations of the trainer (its weights stay float32)."
    )
    head_generator: Dtype = Field(default="float32", description="LM head (logits) of the generator.")
    head_trainer: Dtype = Field(default="float32", description="LM head (logits) of the trainer.")


class Engine(Section):
    type: Literal["vllm", "transformers", "auto"] = Field(
        default="vllm",
        description="Generator engine. auto: the faster one for the model's size, lengths and devices, as measured in "
        "docs/benchmarks.md; the run says which it took and why.",
    )
    max_sequences: Positive = Field(default=256, description="Sequences decoded at the same time.")
    kv_cache_mib: Positive | None = Field(
        default=None,
        description="Memory of each engine's KV cache on each of its devices, MiB; open: what gpu_memory_utilization "
        "leaves on GPUs of its own, else 4096.",
    )
    gpu_memory_utilization: Annotated[float, Field(gt=0, le=0.95)] = Field(
        default=0.85,
        description="Share of a GPU's memory that an engine may use for weights, activations and KV cache, where "
        "kv_cache_mib is open. The rest holds new weights on their way.",
    )
    kv_on_update: Literal["keep", "rebuild"] = Field(
        default="keep",
        description="When new weights arrive, running requests keep the KV cache they have (PipelineRL), "
        "or have it computed anew.",
    )
    prefix_caching: bool = Field(
        default=True,
        description="vllm: requests with the same beginning and weights of the same version share its KV cache, and "
        "what was made before a forced end of thinking is not computed again.",
    )
    compile: bool = Field(
        default=False,
        description="transformers: torch.compile the attention to the cache, which takes seconds at the start.",
    )
    weight_transfer: Literal["auto", "object_store", "collective"] = Field(
        default="auto",
        description="How new weights travel: through the nodes' shared memory, or by broadcast between processes "
        "(collective). auto: by broadcast where generator and trainer have GPUs of their own.",
    )


class Trainer(Section):
    micro_batch_tokens: Positive = Field(
        default=16384, description="Tokens of one forward and backward pass of one rank, padding among them."
    )
    packed: Literal["auto", "always", "never"] = Field(
        default="auto",
        description="Sequences lie behind one another in a pass, without padding; auto: on GPUs, if the model can.",
    )
    activation_checkpointing: bool = Field(
        default=False,
        description="Keep only each layer's input and compute the layer again in the backward pass: less memory, "
        "a third more work.",
    )
    kept_layers: Annotated[int, Field(ge=0)] = Field(
        default=0,
        description="Last layers that activation_checkpointing leaves as they are: as many as the memory has room for.",
    )
    compile: bool = Field(
        default=False, description="torch.compile the layers: a slow first step, faster ones after it."
    )
    head_chunk_tokens: Positive = Field(
        default=4096, description="Tokens whose logits are in memory at the same time."
    )
    lora_rank: Positive | None = Field(
        default=None,
        description="Train low-rank adapters (LoRA) of all linear layers of the decoder in place of the weights; "
        "open: the weights.",
    )
    lora_alpha: PositiveFloat = Field(
        default=32, description="An adapter's effect is multiplied by lora_alpha / lora_rank."
    )


class Resources(Section):
    """Devices are split evenly among engines and among ranks."""

    generator_cpus: Positive = Field(default=1, description="CPU cores of all generator engines together.")
    trainer_cpus: Positive = Field(default=1, description="CPU cores of all trainer ranks together.")
    generator_gpus: Annotated[int, Field(ge=0)] = Field(
        default=0, description="GPUs of all generator engines."
    )
    trainer_gpus: Annotated[int, Field(ge=0)] = Field(default=0, description="GPUs of all trainer ranks.")
    generators: Positive | None = Field(
        default=None,
        description="Generator engines; open: one for each GPU, or one. Several GPUs of an engine are tensor parallel.",
    )
    trainers: Positive | None = Field(
        default=None,
        description="Trainer ranks; open: one for each GPU, or one. FSDP2 divides the weights over them.",
    )
    trainer_replicas: Positive = Field(
        default=1,
        description="Groups of trainer ranks, such as one a machine, each of which divides the weights among its own "
        "(HSDP): only gradients travel between groups.",
    )
    trainer_tensor_parallel: Positive = Field(
        default=1,
        description="Trainer ranks that have the same tokens and a part of each layer; divides the heads of keys.",
    )
    trainer_context_parallel: Positive = Field(
        default=1,
        description="Trainer ranks, or groups of tensor parallel ones, that have the same sequences and a part of the "
        "tokens each, for sequences that one GPU cannot take; divides the heads of keys.",
    )
    trainer_expert_parallel: Positive = Field(
        default=1,
        description="Trainer ranks that a layer's experts are divided over; a multiple of trainer_tensor_parallel.",
    )
    reward_workers: Positive | None = Field(
        default=None,
        description="Ray actors that judge responses, on all nodes, a CPU core each, which device-hours do not count; "
        "open: processes of the driver's machine.",
    )
    gpu_gib: PositiveFloat = Field(
        default=80,
        description="Memory of one GPU, GiB; what does not fit is refused before the run is queued.",
    )
    shared: bool = Field(
        default=False,
        description="Generator and trainer take turns on the same devices; only for recipes whose phases alternate.",
    )

    @property
    def num_generators(self) -> int:
        """Engines."""
        return self.generators or self.generator_gpus or 1

    @property
    def num_trainers(self) -> int:
        """Ranks."""
        return self.trainers or self.trainer_gpus or 1

    @property
    def ranks_of_a_copy(self) -> int:
        """Trainer ranks that divide the weights."""
        return self.num_trainers // self.trainer_replicas

    @property
    def ranks_of_a_row(self) -> int:
        """Trainer ranks that have the same sequences."""
        return self.trainer_tensor_parallel * self.trainer_context_parallel

    @property
    def gpus_per_generator(self) -> int:
        """GPUs of one engine: its tensor-parallel size; 0 on CPU."""
        return self.generator_gpus // self.num_generators

    @property
    def cpus_per_generator(self) -> int:
        """CPU cores of one engine."""
        return max(1, self.generator_cpus // self.num_generators)

    @property
    def cpus_per_trainer(self) -> int:
        """CPU cores of one rank."""
        return max(1, self.trainer_cpus // self.num_trainers)

    @property
    def devices(self) -> int:
        """What a device-hour counts: GPUs where there are any, else CPU cores; shared ones once."""
        together = max if self.shared else lambda *counts: sum(counts)
        gpus = together(self.generator_gpus, self.trainer_gpus)
        return gpus or together(self.generator_cpus, self.trainer_cpus)

    @model_validator(mode="after")
    def _devices_divide(self) -> "Resources":
        for what, count, gpus, cpus in (
            ("generator", self.num_generators, self.generator_gpus, self.generator_cpus),
            ("trainer", self.num_trainers, self.trainer_gpus, self.trainer_cpus),
        ):
            if gpus and gpus % count:
                raise ValueError(f"{what}_gpus ({gpus}) must be a multiple of {what}s ({count})")
            if not gpus and cpus % count:
                raise ValueError(f"{what}_cpus ({cpus}) must be a multiple of {what}s ({count})")
        if self.trainer_gpus and self.trainer_gpus != self.num_trainers:
            raise ValueError(f"trainers ({self.num_trainers}) must be trainer_gpus ({self.trainer_gpus})")
        self._ranks_divide()
        if self.shared and self.generator_gpus != self.trainer_gpus:
            raise ValueError("shared needs generator_gpus and trainer_gpus to be the same GPUs, or none")
        if self.shared and max(counts := (self.num_generators, self.num_trainers)) % min(counts):
            raise ValueError(
                f"shared needs trainers ({counts[1]}) to be a multiple of generators ({counts[0]}) or the other way"
            )
        return self

    def _ranks_divide(self) -> None:
        tensor, experts, count = self.trainer_tensor_parallel, self.trainer_expert_parallel, self.num_trainers
        if count % self.ranks_of_a_row:
            raise ValueError(
                f"trainer_tensor_parallel ({tensor}) times trainer_context_parallel ({self.trainer_context_parallel}) "
                f"must divide the trainer ranks ({count})"
            )
        if count % experts:
            raise ValueError(f"trainer_expert_parallel ({experts}) must divide the trainer ranks ({count})")
        for name, together in (("tensor", tensor), ("expert", experts)):
            if count % (self.trainer_replicas * together):
                raise ValueError(
                    f"trainer_replicas ({self.trainer_replicas}) times trainer_{name}_parallel ({together}) must "
                    f"divide the trainer ranks ({count})"
                )
        if experts > 1 and experts % tensor:
            raise ValueError(
                f"trainer_expert_parallel ({experts}) must be a multiple of trainer_tensor_parallel ({tensor})"
            )


class Downstream(Section):
    task: str = Field(min_length=1, description="A benchmark such as gsm8k, or any task's held-out prompts.")
    options: dict[str, Any] = Field(default_factory=dict, description="Of the task.")
    k: Positive = Field(default=1, description="Generations a prompt; the metric is mean@k.")
    every_steps: Positive | None = Field(
        default=None, description="Updates between, a multiple of eval.every_steps; open: every evaluation."
    )


class Evaluation(Section):
    every_steps: Positive = Field(default=100, description="Updates between evaluations (paper: 100).")
    prompts: Positive = Field(default=1000, description="Held-out prompts (paper: 1000).")
    k: Positive = Field(default=16, description="Generations a prompt; the metric is mean@k (paper: 16).")
    temperature: PositiveFloat = Field(default=1.0, description="Sampling temperature of evaluation.")
    downstream: Annotated[tuple[Downstream, ...], Field(max_length=20)] = Field(
        default=(),
        description="Benchmarks of evaluations, after the held-out prompts: a list of task, options, k, every_steps.",
    )

    @model_validator(mode="after")
    def _benchmarks_have_a_place(self) -> "Evaluation":
        names = [each.task for each in self.downstream]
        if len(set(names)) < len(names):
            raise ValueError("downstream names a task twice")
        if any((each.every_steps or self.every_steps) % self.every_steps for each in self.downstream):
            raise ValueError("every_steps of a downstream task must be a multiple of eval.every_steps")
        return self


class Samples(Section):
    every_steps: Positive = Field(
        default=50, description="Updates between samples kept of the batch; every evaluation keeps its own."
    )
    groups: Annotated[int, Field(ge=0, le=64)] = Field(
        default=8, description="Prompts kept each time, with all of their responses. 0: none are."
    )


class Checkpoint(Section):
    every_steps: Positive = Field(default=100, description="Updates between checkpoints.")
    keep: Positive = Field(default=2, description="Newest checkpoints kept.")
    save_model: bool = Field(
        default=True,
        description="At the end of a run that ends well, write the model to RUN_DIR/model in Hugging Face format.",
    )
