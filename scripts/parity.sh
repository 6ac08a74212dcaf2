#!/usr/bin/env bash
# Runs tests/parity, which compares our losses and advantages with those of TRL and verl and our log-probabilities with
# torchtitan's, in .venv-parity: the three ask for other versions than Headroom. Idempotent; made once.
# PYTHON=/path/to/python3.x chooses the interpreter (3.11 or newer). Arguments go to pytest.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

NAME=parity
VENV=.venv-parity
source scripts/environment.sh

stamp=$(stamp_of requirements/parity.txt scripts/parity.sh)
if ! is_made "$stamp"; then
    make_venv
    install_torch
    echo "parity: installing $(grep -c '==' requirements/parity.txt) pinned packages"
    install_pinned -r requirements/parity.txt
    echo "$stamp" >"$VENV/setup-stamp"
fi

# The fixtures of tests/conftest.py need PostgreSQL and Django; --confcutdir leaves them out.
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1} HF_HUB_OFFLINE=1
exec "$VENV/bin/python" -m pytest --confcutdir=tests/parity tests/parity "$@"
