"""The recipe's schema: every field with its meaning, unit and, where the paper sets it, its section.

Paper: "The Art of Scaling Reinforcement Learning Compute for LLMs", arXiv 2510.13786.
"""

from typing import Annotated

from pydantic import Field, model_validator

from training.schema.base import Section
from training.schema.data import Budget, Rollout, Task
from training.schema.machine import (
    Checkpoint,
    Downstream,
    Engine,
    Evaluation,
    Optimizer,
    Precision,
    Resources,
    Samples,
    Trainer,
)
from training.schema.method import (
    CLIP_DEFAULTS,
    Advantage,
    Critic,
    Curriculum,
    Filter,
    Length,
    Loss,
    OffPolicy,
    Reward,
)

__all__ = [
    "Advantage",
    "Budget",
    "CLIP_DEFAULTS",
    "Checkpoint",
    "Critic",
    "Curriculum",
    "Downstream",
    "Engine",
    "Evaluation",
    "Filter",
    "Length",
    "Loss",
    "OffPolicy",
    "Optimizer",
    "Precision",
    "Recipe",
    "Resources",
    "Reward",
    "Rollout",
    "Samples",
    "Section",
    "Task",
    "Trainer",
]


KV_CACHE_MIB = 4096  # where nothing else says how much


class Recipe(Section):
    """A complete RL configuration. `model_dump(mode="json")` is what a revision stores."""

    name: str = Field(
        pattern=r"^[a-z0-9][a-z0-9./_-]{0,79}$", description="Name; the file's path in recipes/."
    )
    title: str = Field(min_length=1, max_length=100, description="Name for people.")
    description: str = Field("", max_length=2000, description="What this recipe is and where it comes from.")
    task: Task = Task()
    model: str = Field(
        min_length=1,
        description="Folder in HEADROOM_HOME/models, a path from / or ./, or org/name[@revision] of the Hugging Face "
        "hub.",
    )
    seed: Annotated[int, Field(ge=0, lt=2**31)] = Field(
        default=0, description="Seed of prompts and sampling."
    )
    budget: Budget = Budget()
    rollout: Rollout = Rollout()
    offpolicy: OffPolicy = OffPolicy()
    loss: Loss = Loss.model_validate({})
    advantage: Advantage = Advantage()
    critic: Critic = Critic()
    filter: Filter = Filter()
    curriculum: Curriculum = Curriculum()
    length: Length = Length()
    reward: Reward = Reward()
    optimizer: Optimizer = Optimizer()
    precision: Precision = Precision()
    engine: Engine = Engine()
    trainer: Trainer = Trainer()
    resources: Resources = Resources()
    eval: Evaluation = Evaluation()
    samples: Samples = Samples()
    checkpoint: Checkpoint = Checkpoint()

    @property
    def uses_critic(self) -> bool:
        """Whether advantages come from a value head."""
        return (self.advantage.estimator or ("gae" if self.loss.type == "ppo" else "group")) == "gae"

    @property
    def kv_cache_bytes(self) -> int | None:
        """Of each engine on each of its devices; None: what engine.gpu_memory_utilization leaves of its GPU."""
        asked, resources = self.engine.kv_cache_mib, self.resources
        if asked is None and resources.generator_gpus and not resources.shared:
            return None
        return (asked or KV_CACHE_MIB) << 20

    @property
    def broadcasts_weights(self) -> bool:
        """Whether new weights go to the engines by broadcast: by default where both sides have GPUs of their own."""
        resources, transfer = self.resources, self.engine.weight_transfer
        are_apart = bool(resources.generator_gpus and resources.trainer_gpus and not resources.shared)
        return are_apart if transfer == "auto" else transfer == "collective"

    @property
    def asks_to_pack(self) -> bool | None:
        """`trainer.packed`, None for auto; context parallelism divides packed sequences."""
        if self.resources.trainer_context_parallel > 1:
            return True
        return {"auto": None, "always": True, "never": False}[self.trainer.packed]

    @property
    def row_group_tokens(self) -> int:
        """Of one pass of all ranks that have the same sequences."""
        return self.trainer.micro_batch_tokens * self.resources.trainer_context_parallel

    @model_validator(mode="after")
    def _parts_fit_together(self) -> "Recipe":
        for is_wrong, reason in self._contradictions_of_resources() + self._contradictions_of_the_method():
            if is_wrong:
                raise ValueError(reason)
        return self

    def _contradictions_of_resources(self) -> list[tuple[bool, str]]:
        return [
            (
                self.resources.shared and not self.offpolicy.alternates,
                "resources.shared needs phases that alternate: offpolicy.k 0, or mode ppo",
            ),
            (
                self.engine.weight_transfer == "collective"
                and (self.resources.shared or not self.resources.trainer_gpus)
                and self.resources.generator_gpus > 0,
                "engine.weight_transfer collective needs GPUs of their own for generator and trainer, or none at all",
            ),
            (
                self.engine.weight_transfer == "collective"
                and self.resources.trainer_gpus > 0
                and not self.resources.generator_gpus,
                "engine.weight_transfer collective needs GPUs for the generator too where the trainer has some",
            ),
            (
                self.engine.type == "transformers" and self.resources.gpus_per_generator > 1,
                "engine.type transformers generates on one GPU an engine: resources.generators must be "
                f"{self.resources.generator_gpus}",
            ),
            (
                self.trainer.lora_rank is not None and self.uses_critic,
                "trainer.lora_rank adapts the policy alone: a recipe with a critic trains all weights",
            ),
            (
                self.trainer.kept_layers > 0 and not self.trainer.activation_checkpointing,
                "trainer.kept_layers are those that trainer.activation_checkpointing leaves: it must be true",
            ),
            (
                self.resources.trainer_context_parallel > 1 and self.trainer.packed == "never",
                "resources.trainer_context_parallel divides packed sequences: trainer.packed must not be never",
            ),
            (
                self.trainer.compile
                and max(self.resources.trainer_tensor_parallel, self.resources.trainer_expert_parallel) > 1,
                "trainer.compile compiles whole layers: resources.trainer_tensor_parallel and trainer_expert_parallel "
                "must be 1",
            ),
        ]

    def _contradictions_of_the_method(self) -> list[tuple[bool, str]]:
        rollout, length, loss, advantage = self.rollout, self.length, self.loss, self.advantage
        untrained = rollout.max_untrained_prompts
        free_tokens = length.penalty_max_tokens - length.penalty_cache_tokens
        return [
            (
                untrained is not None and untrained < rollout.prompts_per_step,
                "rollout.max_untrained_prompts is below rollout.prompts_per_step",
            ),
            (
                length.mode == "interruption" and length.interrupt_high > rollout.max_thinking_tokens,
                "length.interrupt_high is above rollout.max_thinking_tokens",
            ),
            (
                length.mode == "penalty" and free_tokens >= rollout.max_response_tokens,
                "length.penalty_max_tokens - penalty_cache_tokens is not below the longest response: "
                "the penalty would never apply",
            ),
            (
                loss.type == "ppo" and not self.uses_critic,
                "loss.type ppo has a critic (advantage.estimator gae); without one it is grpo",
            ),
            (
                loss.type == "gspo" and self.uses_critic,
                "loss.type gspo has one ratio for a sequence, and advantage.estimator gae one advantage for "
                "each token",
            ),
            (
                self.uses_critic and advantage.norm == "prompt",
                "advantage.norm prompt belongs to advantage.estimator group",
            ),
        ]
