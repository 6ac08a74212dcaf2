"""What a checkpoint notes of its model's files, so that a resume with another model of the same name is refused."""

import hashlib
import json
from pathlib import Path
from typing import Any

# Of config.json: what says how the file was made, and not what the model computes.
NOT_COMPARED = (
    "_name_or_path",
    "transformers_version",
    "dtype",
    "torch_dtype",
    "use_cache",
    "_attn_implementation",
)
TOKENIZER = "tokenizer.json"


def model_identity(folder: Path) -> dict[str, Any]:
    """Entries of config.json and the SHA-256 of tokenizer.json. Raises OSError or ValueError where they lack."""
    config = json.loads((folder / "config.json").read_text())
    kept = {name: value for name, value in config.items() if name not in NOT_COMPARED}
    return {"config": kept, "tokenizer": hashlib.sha256((folder / TOKENIZER).read_bytes()).hexdigest()}
