"""Which variables a project may set for its jobs: credentials, and nothing that changes what runs.

Many variables change what a process does (PATH, LD_PRELOAD, BASH_ENV, GIT_SSH_COMMAND...), and no list of them is
complete. So a name must end as credentials do, and must not begin as the variables of what runs the jobs.
"""

import re

from webapp.base.errors import InvalidInput

NAME = re.compile(r"[A-Z][A-Z0-9_]{0,63}")
COMMON = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "WANDB_API_KEY", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
ENDINGS = ("_TOKEN", "_KEY", "_KEY_ID", "_SECRET", "_PASSWORD", "_USERNAME")
RESERVED = (
    "PATH", "PYTHON", "LD_", "DYLD_", "HEADROOM_", "RAY_", "OMP_", "CUDA_", "NVIDIA_", "NCCL_", "MKL_", "TORCH",
    "PYTORCH", "VLLM_", "TRANSFORMERS_", "HF_HUB_", "HF_DATASETS_", "HF_ENDPOINT", "HF_HOME", "DJANGO_", "GIT_", "SSL_",
    "MALLOC_", "GLIBC_", "BASH_", "DATABASE_", "REDIS_", "CELERY_",
)  # fmt: skip


def check_name(name: str) -> None:
    """Raises InvalidInput (name) for what no secret may be called."""
    if not NAME.fullmatch(name):
        raise InvalidInput(
            "name", "A name has up to 64 capital letters, digits and _, beginning with a letter: HF_TOKEN."
        )
    if name.startswith(RESERVED):
        raise InvalidInput("name", f"{name} could change what a job runs, or how: it cannot be a secret.")
    if name not in COMMON and not name.endswith(ENDINGS):
        endings = ", ".join(ENDINGS)
        raise InvalidInput(
            "name", f"A secret is a credential: its name is HF_TOKEN or ends with one of {endings}."
        )
