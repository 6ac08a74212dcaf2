"""What a model's parameters are called in its files, where transformers holds several tensors in one parameter.

The experts of a layer are one parameter of a mixture's module, and a tensor each in its files, which is also what vLLM
takes. Names and parts are transformers' own, by the table with which it reads and writes files.
"""

from collections.abc import Sequence

from torch import Tensor
from transformers import PreTrainedModel
from transformers.conversion_mapping import get_model_conversion_mapping
from transformers.core_model_loading import WeightConverter, revert_weight_conversion

STACKED = {
    "MergeModulelist",
    "Concatenate",
}  # experts as a dimension, an expert's tensors as rows


def in_files(model: PreTrainedModel, name: str, value: Tensor) -> dict[str, Tensor]:
    """Name in files -> tensor, of one of the model's parameters; without memory for one on the meta device."""
    found: dict[str, Tensor] = revert_weight_conversion(model, {name: value})
    return found


def are_stacked(model: PreTrainedModel) -> bool:
    """Whether `put_together` makes every parameter of its parts."""
    conversions = get_model_conversion_mapping(model, add_legacy=False)
    used = [
        type(step).__name__
        for each in conversions
        if isinstance(each, WeightConverter)
        for step in each.operations
    ]
    return set(used) <= STACKED


def put_together(parts: Sequence[Tensor], parameter: Tensor) -> None:
    """Fill a parameter with the parts that `in_files` names, in that order.

    parameter: of the shape of a single part, or [experts, rows, columns] with parts [rows / n, columns], the first of
    each expert before the second of each.
    """
    if len(parts) == 1 and parts[0].shape == parameter.shape:
        parameter.copy_(parts[0])
        return
    experts = len(parameter)
    for place, part in enumerate(parts):
        expert, first = place % experts, place // experts * len(part)
        parameter[expert, first : first + len(part)].copy_(part)
