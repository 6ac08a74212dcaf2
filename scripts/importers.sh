#!/usr/bin/env bash
# Writes tests/webapp/interfaces/imports/samples with the real tools (wandb, mlflow, tensorboard), which live in .venv-importers, an
# environment of its own, made once. PYTHON=/path/to/python3.x chooses its interpreter (3.11 or newer). Arguments go to
# make_samples.py.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

NAME=importers
VENV=.venv-importers
source scripts/environment.sh

stamp=$(stamp_of requirements/importers.txt scripts/importers.sh)
if ! is_made "$stamp"; then
    make_venv
    echo "importers: installing $(grep -c '==' requirements/importers.txt) pinned packages"
    install_pinned -r requirements/importers.txt
    echo "$stamp" >"$VENV/setup-stamp"
fi

export WANDB_MODE=offline MLFLOW_DISABLE_TELEMETRY=true DO_NOT_TRACK=true
exec "$VENV/bin/python" tests/webapp/interfaces/imports/make_samples.py "$@"
