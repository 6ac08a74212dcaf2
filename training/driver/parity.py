"""Generator against trainer: log-probabilities of the same tokens (log rho at step 0 should be 0, section 6)."""

from collections.abc import Sequence

import numpy as np

from training.trainer.batching import Batch

MAX_MEAN_DIFFERENCE = (
    0.1  # nats a token; far above rounding in bfloat16, far below a wrong weight or template
)
PARITY_SAMPLES = 64


class ParityError(RuntimeError):
    """Generator and trainer disagree about the same tokens."""


def mismatch(batch: Batch, trainer_logp: np.ndarray) -> dict[str, float]:
    """Mean and largest |difference| over the tokens that the policy chose. trainer_logp: [N, L - 1]."""
    difference = np.abs(trainer_logp - batch.behaviour_logp)[batch.mask]
    return {
        "train/mismatch_logp_mean": float(difference.mean()),
        "train/mismatch_logp_max": float(difference.max()),
    }


def gaps_of_rows(batch: Batch, trainer_logp: np.ndarray) -> list[float]:
    """Mean |difference| of each row's chosen tokens; 0 of a row without any."""
    difference = np.abs(trainer_logp - batch.behaviour_logp) * batch.mask
    means: list[float] = (difference.sum(1) / np.maximum(batch.mask.sum(1), 1)).tolist()
    return means


def check_parity(metrics: dict[str, float]) -> None:
    """Raise ParityError where training would start from a wrong ratio."""
    mean = metrics["train/mismatch_logp_mean"]
    if not mean <= MAX_MEAN_DIFFERENCE:
        raise ParityError(
            f"generator and trainer disagree by {mean:.3g} nats a token on the same tokens "
            f"(allowed: {MAX_MEAN_DIFFERENCE}); check dtypes, head precision and weights"
        )


def sample_rows(count: int, wanted: int) -> Sequence[int]:
    """Evenly spread positions, at most `wanted`."""
    return range(0, count, max(1, count // wanted))[:wanted]
