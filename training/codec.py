"""Text to token ids and back, from a model folder's tokenizer.json. Needs `tokenizers`, not transformers."""

import json
from pathlib import Path

from tokenizers import Tokenizer

from training.tasks.arithmetic import END_THINK


class Codec:
    """A model's tokenizer."""

    def __init__(self, folder: Path) -> None:
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.eos_ids = eos_token_ids(folder)
        self._end_think = self.encode(END_THINK)

    def encode(self, text: str) -> list[int]:
        """Token ids of the text, without added special tokens. ValueError where the vocabulary lacks a character."""
        try:
            return self._tokenizer.encode(text, add_special_tokens=False).ids
        except Exception:  # the library raises nothing narrower for an unknown character
            raise ValueError(f"the model's vocabulary cannot spell {text!r}") from None

    def decode(self, tokens: list[int]) -> str:
        """Text of the tokens, the end-of-sequence token left out."""
        kept = [token for token in tokens if token not in self.eos_ids]
        return self._tokenizer.decode(kept, skip_special_tokens=False)

    def has_ended_thinking(self, tokens: list[int]) -> bool:
        """Whether the tokens spell `</think>`."""
        width = len(self._end_think)
        return any(tokens[i : i + width] == self._end_think for i in range(len(tokens) - width + 1))


def eos_token_ids(folder: Path) -> list[int]:
    """End-of-sequence ids as config.json says them."""
    eos = json.loads((folder / "config.json").read_text()).get("eos_token_id")
    if eos is None:
        raise ValueError(f"{folder}/config.json does not say eos_token_id")
    return [int(token) for token in (eos if isinstance(eos, list) else [eos])]
