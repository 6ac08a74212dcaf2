"""Whether torch.compile can work here."""

import os
import shutil


class CompileError(RuntimeError):
    """A recipe asks for compiled code where there is no compiler; the message names the field."""


def check_compiler(field: str, device: str) -> None:
    """CompileError on a CPU without a C++ compiler; `field` of the recipe asks for it."""
    compiler = os.environ.get("CXX", "g++")
    if device == "cpu" and shutil.which(compiler) is None:
        raise CompileError(
            f"{field} needs a C++ compiler and there is no {compiler}: install one, name it in CXX, "
            f"or set {field} to false"
        )
