#!/usr/bin/env bash
# Runs tests/parity, which compares our losses and advantages with those of TRL and verl, in .venv-parity, an
# environment of its own: the two ask for other versions than Headroom. Idempotent; the environment is made once.
# PYTHON=/path/to/python3.x chooses the interpreter (3.11 or newer). Arguments go to pytest.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

TORCH=torch==2.13.0 # as in scripts/setup.sh
UV=uv==0.13.8
TORCH_CPU_INDEX=https://download.pytorch.org/whl/cpu
VENV=.venv-parity

fail() {
    echo "parity: $1" >&2
    exit 1
}

# The registry's Linux builds of torch bring gigabytes of CUDA libraries; ask before downloading anything.
brings_cuda() {
    local plan
    plan=$("$VENV/bin/python" -m pip install --quiet --dry-run --ignore-installed --report - "$TORCH") || return 0
    grep -qE '"name": *"(nvidia|cuda|triton)' <<<"$plan"
}

install_torch() {
    local from=()
    if brings_cuda; then
        from=(--index-url "$TORCH_CPU_INDEX")
    fi
    "$VENV/bin/python" -m pip install --quiet --no-deps "${from[@]}" "$TORCH"
}

find_python() {
    local candidate
    for candidate in ${PYTHON:-python3 python3.11 python3.12 python3.13}; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            echo "$candidate"
            return
        fi
    done
    fail "needs Python 3.11 or newer; set PYTHON=/path/to/python3.11"
}

make_environment() {
    local python
    python=$(find_python)
    echo "parity: making $VENV with $python"
    "$python" -m venv --clear "$VENV"
    echo "parity: installing $TORCH (CPU)"
    install_torch
    echo "parity: installing $(grep -c '==' requirements/parity.txt) pinned packages"
    "$VENV/bin/python" -m pip install --quiet "$UV"
    "$VENV/bin/uv" pip install --quiet --python "$VENV/bin/python" --no-deps -r requirements/parity.txt
}

stamp=$(cat requirements/parity.txt scripts/parity.sh | sha256sum | cut -d' ' -f1)
if [[ "$(cat "$VENV/setup-stamp" 2>/dev/null || true)" != "$stamp" ]]; then
    make_environment
    echo "$stamp" >"$VENV/setup-stamp"
fi

# The fixtures of tests/conftest.py need PostgreSQL and Django; --confcutdir leaves them out.
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1} HF_HUB_OFFLINE=1
exec "$VENV/bin/python" -m pytest --confcutdir=tests/parity tests/parity "$@"
