#!/usr/bin/env bash
# Runs tests/trackers, in which the real clients of other trackers (MLflow, trackio; TRL's and verl's loggers) write to a
# real Headroom server. The clients live in .venv-trackers, an environment of its own, made once; the server runs from
# .venv. PYTHON=/path/to/python3.x chooses the interpreter (3.11 or newer). Arguments go to pytest.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

NAME=trackers
VENV=.venv-trackers
source scripts/environment.sh

[[ -x .venv/bin/python ]] || fail "Headroom's own environment is missing: make setup"
stamp=$(stamp_of requirements/trackers.txt scripts/trackers.sh)
if ! is_made "$stamp"; then
    make_venv
    install_torch
    echo "trackers: installing $(grep -c '==' requirements/trackers.txt) pinned packages"
    install_pinned -r requirements/trackers.txt
    echo "$stamp" >"$VENV/setup-stamp"
fi

# The fixtures of tests/conftest.py need PostgreSQL and Django; --confcutdir leaves them out.
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1} HF_HUB_OFFLINE=1
exec "$VENV/bin/python" -m pytest --confcutdir=tests/trackers tests/trackers "$@"
