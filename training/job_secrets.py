"""The secrets of a run's project (hub tokens): from a file of the job into the driver's own environment.

They are in no command line, no metadata of the job and no environment that Ray keeps or hands to other processes. The
file is deleted as soon as it is read.
"""

import json
import os
from pathlib import Path

FILE_VARIABLE = "HEADROOM_SECRETS_FILE"


def take_secrets() -> list[str]:
    """Set the variables that the file of HEADROOM_SECRETS_FILE holds, and delete it. Returns their names.

    Nothing happens without that variable, or where the file was taken before. Raises ValueError for another content.
    """
    if (path := os.environ.pop(FILE_VARIABLE, None)) is None:
        return []
    try:
        content = json.loads(Path(path).read_text())
    except FileNotFoundError:
        return []
    if not isinstance(content, dict) or not all(isinstance(value, str) for value in content.values()):
        raise ValueError(f"{FILE_VARIABLE} must name a JSON object of texts")
    Path(path).unlink(missing_ok=True)
    os.environ.update(content)
    return sorted(content)
