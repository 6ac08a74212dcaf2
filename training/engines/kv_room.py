"""How much KV cache an engine gets, and whether one sequence of full length fits into it."""

from dataclasses import dataclass

import torch

from training.schema import Recipe

GIB = 1 << 30


@dataclass(frozen=True)
class Room:
    """Memory for the KV cache on one device, and who says so."""

    bytes: int
    reason: str


def kv_room(recipe: Recipe, device: str, weights_bytes: int = 0) -> Room:
    """What the recipe gives an engine, activations not counted. weights_bytes: of weights that are still to be loaded
    onto the device."""
    asked, engine = recipe.kv_cache_bytes, recipe.engine
    if asked is not None or not device.startswith("cuda"):
        size = asked or 0
        return Room(size, f"engine.kv_cache_mib ({size >> 20})")
    free, total = torch.cuda.mem_get_info()
    share = engine.gpu_memory_utilization
    return Room(
        max(0, int(free - (1 - share) * total) - weights_bytes),
        f"engine.gpu_memory_utilization ({share:g} of {total / GIB:.1f} GiB, of which {free / GIB:.1f} are free, "
        f"with {weights_bytes / GIB:.1f} GiB of weights to come)",
    )


def refuse_too_small(room: Room, recipe: Recipe, token_bytes: int) -> None:
    """ValueError where the room does not hold one sequence of the longest length. token_bytes: of one token's keys and
    values on one device."""
    wanted = recipe.rollout.max_sequence_tokens
    held = room.bytes // token_bytes
    if held < wanted:
        raise ValueError(
            f"{room.reason} does not hold one sequence of {wanted} tokens: it holds {held} of {token_bytes} bytes "
            f"each; one sequence needs {-(-wanted * token_bytes // (1 << 20))} MiB on each device"
        )
