"""From rollouts to arrays, and from arrays to micro-batches. numpy only: the driver imports it."""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from training.flops import Work
from training.rollouts import Group


@dataclass(frozen=True)
class Batch:
    """N samples, padded on the right to L tokens. Column t of the [N, L - 1] arrays belongs to token t + 1."""

    tokens: np.ndarray  # [N, L] int64
    lengths: np.ndarray  # [N] int64, prompt and response
    behaviour_logp: np.ndarray  # [N, L - 1] float32, the generator's own
    mask: np.ndarray  # [N, L - 1] bool, True where the policy chose the token
    rewards: np.ndarray  # [N] float32
    prompt_index: np.ndarray  # [N] int64
    fresh: np.ndarray  # [N, L - 1] bool, True where the weights that the batch is trained on chose the token

    def __len__(self) -> int:
        return len(self.lengths)

    def of(self, rows: np.ndarray) -> "Batch":
        """The samples of these rows."""
        return Batch(**{field.name: getattr(self, field.name)[rows] for field in fields(self)})


@dataclass(frozen=True)
class StepResult:
    """Metrics of one update (names without prefix) and the tokens that it was made of."""

    metrics: dict[str, float]
    trained_tokens: int  # response tokens in the loss
    work: Work = Work()  # sequences that went forward and backward
    forward_work: Work = Work()  # sequences that went forward alone
    by_sample: "BySample | None" = None


@dataclass(frozen=True)
class BySample:
    """What an update had of each sample of its batch, [N] float32; NaN where the sample was not in the loss.

    logp_gap: mean |log-probability here - generator's| of its chosen tokens, before the update. advantages: with a
    critic the mean over its tokens.
    """

    advantages: np.ndarray
    logp_gap: np.ndarray


def make_batch(groups: Sequence[Group], version: int | None = None) -> Batch:
    """One batch of all samples of the groups; the position of a group is its prompt index. version: of the weights that
    it is trained on."""
    samples = [(index, sample) for index, group in enumerate(groups) for sample in group.samples]
    width = max(len(sample.tokens) for _, sample in samples)
    shape = (len(samples), width)
    tokens = np.zeros(shape, np.int64)
    logp = np.zeros(shape, np.float32)
    mask, fresh = np.zeros(shape, bool), np.zeros(shape, bool)
    for row, (_, sample) in enumerate(samples):
        start, end = len(sample.prompt), len(sample.tokens)
        tokens[row, :end] = numbers("q", sample.tokens)
        logp[row, start:end] = numbers("f", sample.logp)
        mask[row, start:end] = numbers("B", sample.chosen)
        if version in sample.versions:
            fresh[row, start:end] = (numbers("q", sample.versions) == version) & mask[row, start:end]
    return Batch(
        tokens=tokens,
        lengths=np.array([len(sample.tokens) for _, sample in samples], np.int64),
        behaviour_logp=logp[:, 1:],
        mask=mask[:, 1:],
        rewards=np.array([sample.reward for _, sample in samples], np.float32),
        prompt_index=np.array([index for index, _ in samples], np.int64),
        fresh=fresh[:, 1:],
    )


def numbers(code: str, values: Sequence[float]) -> np.ndarray:
    """[n] of the array module's type, several times as fast as numpy reads a long list."""
    return np.asarray(array(code, values))


def micro_batches(lengths: np.ndarray, max_tokens: int) -> list[np.ndarray]:
    """Row numbers of each micro-batch: sorted by length, at most `max_tokens` padded tokens, at least one row."""
    order = np.argsort(-lengths, kind="stable")
    batches: list[np.ndarray] = []
    start = 0
    while start < len(order):
        rows = max(1, int(max_tokens // lengths[order[start]]))
        batches.append(order[start : start + rows])
        start += rows
    return batches


def shares(lengths: np.ndarray, max_tokens: int, count: int) -> list[list[np.ndarray]]:
    """Each of `count` ranks' micro-batches (`micro_batches`), for every rank as many: the last ones may be empty.

    Rows are dealt one by one in the order of their length, so that the ranks have about the same work.
    """
    order = np.argsort(-lengths, kind="stable")
    dealt = [order[rank::count] for rank in range(count)]
    parts = [[rows[part] for part in micro_batches(lengths[rows], max_tokens)] for rows in dealt]
    most = max(len(own) for own in parts)
    return [own + [np.zeros(0, np.int64)] * (most - len(own)) for own in parts]


def packed_shares(
    lengths: np.ndarray, max_tokens: int, count: int, *, even_tokens: int
) -> list[list[np.ndarray]]:
    """As `shares`, for sequences that lie behind one another: at most `max_tokens` of their own, or one sequence.

    A sequence of L tokens is L x (L + even_tokens) of work: at `even_tokens`, attention is half of it. As few
    micro-batches as can be have about the same work each; those that ranks pass at the same time are the most alike.
    """
    order, work = np.argsort(-lengths, kind="stable"), lengths * (lengths + even_tokens)
    fewest = _filled(order, lengths, max_tokens, len(order), work=np.zeros_like(lengths)) or []
    rounds = -(-len(fewest) // count)
    found = _filled(order, lengths, max_tokens, rounds * count, work=work) or fewest
    found.sort(key=lambda rows: -work[rows].sum())
    found += [[] for _ in range(rounds * count - len(found))]
    return [[np.array(rows, np.int64) for rows in found[rank::count]] for rank in range(count)]


def _filled(
    order: np.ndarray, lengths: np.ndarray, max_tokens: int, most: int, *, work: np.ndarray
) -> list[list[int]] | None:
    """Rows of at most so many micro-batches: each row goes to the one with the least work of those that have room, the
    first of equals. None where one finds no room."""
    tokens, done = np.zeros(most, np.int64), np.zeros(most, np.int64)
    found: list[list[int]] = [[] for _ in range(most)]
    for row in order:
        has_room = (tokens + lengths[row] <= max_tokens) | (tokens == 0)
        if not has_room.any():
            return None
        place = int(np.argmin(np.where(has_room, done, np.iinfo(np.int64).max)))
        tokens[place] += lengths[row]
        done[place] += work[row]
        found[place].append(int(row))
    return [rows for rows in found if rows]
