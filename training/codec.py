"""Text to token ids and back, from a model folder's tokenizer.json. Needs `tokenizers`, not transformers."""

from pathlib import Path

from tokenizers import Tokenizer

from training.chat import ChatTemplate
from training.errors import first_line
from training.models import ModelError, eos_token_ids
from training.verifiers.text import BEGIN_THINK, END_THINK

_TAIL = 16  # tokens that spell `<think>` and white space after it, in any vocabulary


class Codec:
    """A model's tokenizer; with `chat_template`, prompts are put into the model's template.

    Raises ModelError where the folder's tokenizer.json cannot be used.
    """

    def __init__(self, folder: Path, *, chat_template: bool = False) -> None:
        self._chat = ChatTemplate(folder) if chat_template else None
        self._tokenizer = _tokenizer(folder / "tokenizer.json")
        self.eos_ids = eos_token_ids(folder)
        self._eos = frozenset(self.eos_ids)
        self._end_think = self.encode(END_THINK)

    def encode(self, text: str) -> list[int]:
        """Token ids of the text, without added special tokens. ValueError where the vocabulary lacks a character."""
        try:
            return self._tokenizer.encode(text, add_special_tokens=False).ids
        except Exception:  # the library raises nothing narrower for an unknown character
            raise ValueError(f"the model's vocabulary cannot spell {text[:80]!r}") from None

    def encode_prompt(self, text: str) -> list[int]:
        """Token ids of a prompt: of the text, or of the conversation that begins with it. ValueError as `encode`."""
        return self.encode(self._chat.render(text) if self._chat else text)

    def decode(self, tokens: list[int]) -> str:
        """Text of the tokens, the end-of-sequence token left out."""
        kept = tokens[:-1] if tokens and tokens[-1] in self.eos_ids else tokens
        if not self._eos.isdisjoint(kept):  # hardly ever: a token at a time takes long
            kept = [token for token in kept if token not in self._eos]
        return self._tokenizer.decode(kept, skip_special_tokens=False)

    def opens_thinking(self, prompt: list[int]) -> bool:
        """Whether the prompt ends with `<think>`, as many chat templates do: what follows is a thought."""
        return self.decode(prompt[-_TAIL:]).rstrip().endswith(BEGIN_THINK)

    def end_of_thinking(self, tokens: list[int]) -> int | None:
        """Where the tokens first spell `</think>`: the place of its first token; None where they do not."""
        start, width = 0, len(self._end_think)
        for _ in range(tokens.count(self._end_think[0])):
            start = tokens.index(self._end_think[0], start) + 1
            if tokens[start - 1 : start - 1 + width] == self._end_think:
                return start - 1
        return None


def _tokenizer(path: Path) -> Tokenizer:
    try:
        return Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises nothing narrower
        raise ModelError(f"{path} cannot be used: {first_line(error)}") from None
