"""The choices that the paper compares: off-policy mode, loss, advantages, filter, curriculum, length, reward."""

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from training.schema.base import NonNegativeFloat, Positive, PositiveFloat, Section, Share


class OffPolicy(Section):
    mode: Literal["pipeline", "ppo"] = Field(
        default="pipeline",
        description="pipeline: generators stream and get new weights after each update. "
        "ppo: a block of k batches is generated, then k updates are made on it (PPO-off-policy-k).",
    )
    k: Annotated[int, Field(ge=0)] = Field(
        default=8,
        description="pipeline: the trainer is at most k versions ahead of a sample; 0 is synchronous. "
        "ppo: updates per block, at least 1.",
    )

    @property
    def alternates(self) -> bool:
        """Whether generation and training take turns, so that a run is a function of its recipe and its model."""
        return self.mode == "ppo" or self.k == 0

    @model_validator(mode="after")
    def _ppo_needs_a_block(self) -> "OffPolicy":
        if self.mode == "ppo" and self.k < 1:
            raise ValueError("mode ppo needs k of at least 1")
        return self


LossType = Literal["cispo", "grpo", "dapo", "gspo", "ppo", "icepop", "reinforce"]

# The clip range of each type where a recipe leaves it open (paper, section 3.2 and appendix A.2).
CLIP_DEFAULTS: dict[str, dict[str, float]] = {
    "cispo": {"eps_max": 5.0},
    "grpo": {"eps_low": 0.2, "eps_high": 0.2},
    "dapo": {"eps_low": 0.2, "eps_high": 0.26},
    "gspo": {"eps_low": 3e-3, "eps_high": 4e-3},
    "ppo": {"eps_low": 0.2, "eps_high": 0.2},
    "icepop": {"eps_low": 0.5, "eps_high": 4.0},
    "reinforce": {},
}


class Loss(Section):
    """Only the clip fields that the type uses are kept; those left open get the paper's value."""

    type: LossType = Field(default="cispo", description="Policy loss; formulas in docs/losses.md.")
    aggregation: Literal["prompt", "sample", "token", "sum"] = Field(
        default="prompt",
        description="Which average: over a prompt's tokens, a sample's tokens, or all tokens; or their plain sum.",
    )
    eps_low: NonNegativeFloat | None = Field(
        default=None, description="The ratio is clipped below at 1 - eps_low."
    )
    eps_high: NonNegativeFloat | None = Field(
        default=None, description="The ratio is clipped above at 1 + eps_high."
    )
    eps_max: PositiveFloat | None = Field(default=None, description="CISPO: absolute cap on the ratio.")
    old_policy: Literal["generator", "trainer"] = Field(
        default="generator",
        description="Whose probabilities the ratio divides by: the generator's own (the paper), "
        "or the trainer's before the step.",
    )
    importance_cap: PositiveFloat | None = Field(
        default=None,
        description="old_policy trainer: weigh each token by min(old / generator, this); open: no correction.",
    )
    epochs: Annotated[int, Field(ge=1, le=100)] = Field(
        default=1, description="Updates on the same batch (PPO epochs)."
    )
    kl_coef: NonNegativeFloat = Field(
        default=0.0, description="Weight of the KL penalty to the model that the run started from; 0: none."
    )
    kl_estimate: Literal["k1", "k2", "k3"] = Field(
        default="k3",
        description="Estimate of the KL penalty. As a loss only k2 has the divergence's gradient, and k1 has none.",
    )
    entropy_coef: NonNegativeFloat = Field(
        default=0.0, description="Weight of the entropy bonus; the paper uses none."
    )

    @model_validator(mode="before")
    @classmethod
    def _clip_fields_of_the_type(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        defaults = CLIP_DEFAULTS.get(data.get("type", "cispo"))
        if defaults is None:  # the type itself is wrong and will be named
            return data
        given = {key: value for key, value in data.items() if key not in ("eps_low", "eps_high", "eps_max")}
        for key, default in defaults.items():
            given[key] = default if data.get(key) is None else data[key]
        return given

    @model_validator(mode="after")
    def _old_policy_fits(self) -> "Loss":
        if self.importance_cap is not None and self.old_policy == "generator":
            raise ValueError(
                "importance_cap needs old_policy trainer: the generator's ratio is exact already"
            )
        if self.type == "icepop" and self.old_policy == "trainer":
            raise ValueError("icepop masks by the ratio to the generator: old_policy must be generator")
        if self.type == "reinforce" and self.epochs > 1:
            raise ValueError("reinforce has no ratio to correct a second pass over a batch: epochs must be 1")
        return self


class Advantage(Section):
    estimator: Literal["group", "gae"] | None = Field(
        default=None,
        description="group: reward minus the mean of its prompt. gae: generalised advantages from a value head. "
        "Open: gae for loss type ppo, else group.",
    )
    norm: Literal["batch", "prompt", "none", "global"] = Field(
        default="batch",
        description="Divide the advantage by the std of the batch, of the prompt, not, or by the running std of "
        "all batches so far.",
    )


class Critic(Section):
    """The value head of `advantage.estimator: gae`, always float32. Without it nothing here has an effect."""

    trunk: Literal["shared", "separate"] = Field(
        default="shared", description="The policy's own layers, or a float32 copy of them."
    )
    value_coef: NonNegativeFloat = Field(default=0.5, description="Weight of the clipped value loss.")
    eps_value: PositiveFloat = Field(
        default=0.2, description="A value moves at most this far from where the step began, reward units."
    )
    gamma: Share = Field(default=1.0, description="Discount a token; 1: the outcome counts in full.")
    lam: Annotated[float, Field(ge=0, le=1)] = Field(default=0.95, description="GAE's lambda.")
    lr: PositiveFloat = Field(
        default=1e-5, description="Learning rate of the value head and a separate trunk."
    )


class Filter(Section):
    zero_variance: Literal["drop", "keep", "refill"] = Field(
        default="drop",
        description="Prompts whose generations all score the same: out of the loss, kept, or replaced by other "
        "prompts (dynamic sampling).",
    )
    max_refills: Positive = Field(
        default=4, description="refill: prompts tried in place of one, then it is dropped."
    )


class Curriculum(Section):
    mode: Literal["uniform", "no_positive_resampling", "linear_ramp", "exponential_ramp"] = Field(
        default="no_positive_resampling",
        description="Uniform; drop for good what is solved already; or from the easiest prompts to all of them.",
    )
    max_pass_rate: Share = Field(
        default=0.9, description="no_positive_resampling: a prompt with this historical pass rate is removed."
    )
    pass_rate_of: Literal["all_visits", "last_visit"] = Field(
        default="all_visits",
        description="no_positive_resampling: the historical pass rate, over all generations that the prompt has had "
        "so far, or over those of its last visit alone.",
    )
    ramp_start: Share = Field(
        default=0.2, description="Ramps: share of the prompts, easiest first, at step 0."
    )
    ramp_steps: Positive = Field(default=1000, description="Ramps: updates until all prompts are in.")
    ramp_length: bool = Field(
        default=False, description="Ramps: the room for thinking grows by the same share, up to its limit."
    )


class Length(Section):
    mode: Literal["interruption", "penalty", "none"] = Field(
        default="interruption",
        description="Overlong thinking is interrupted, or penalised in correct traces; none: cut at the limit.",
    )
    interrupt_low: Positive = Field(
        default=10_000, description="interruption: earliest length, thinking tokens."
    )
    interrupt_high: Positive = Field(
        default=12_000, description="interruption: latest length, thinking tokens."
    )
    phrase: str = Field(
        default="Okay, time is up. Let me stop thinking and formulate a final answer now. </think>",
        min_length=1,
        description="interruption: appended to the trace. Its tokens are never trained on.",
    )
    penalty_max_tokens: Positive = Field(default=14_000, description="penalty: L_max, response tokens.")
    penalty_cache_tokens: Positive = Field(default=2_000, description="penalty: L_cache, response tokens.")

    @model_validator(mode="after")
    def _range_is_ordered(self) -> "Length":
        if self.interrupt_low > self.interrupt_high:
            raise ValueError("interrupt_low is above interrupt_high")
        if self.mode == "penalty" and self.penalty_cache_tokens > self.penalty_max_tokens:
            raise ValueError(
                "penalty_cache_tokens is above penalty_max_tokens: every length would be penalised"
            )
        return self


class Reward(Section):
    correct: float = Field(default=1.0, allow_inf_nan=False, description="Reward of a correct answer.")
    incorrect: float = Field(default=-1.0, allow_inf_nan=False, description="Reward of any other.")

    @model_validator(mode="after")
    def _correct_pays(self) -> "Reward":
        if self.correct <= self.incorrect:
            raise ValueError("correct must be above incorrect")
        return self
