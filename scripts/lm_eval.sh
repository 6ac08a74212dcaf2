#!/usr/bin/env bash
# Runs tests/lm_eval, in which the real lm-evaluation-harness measures a tiny model by our engine. It lives in
# .venv-lm-eval, made once, on top of .venv. PYTHON=/path/to/python3.x as in scripts/setup.sh. Arguments go to pytest.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

NAME=lm-eval
VENV=.venv-lm-eval
source scripts/environment.sh

[[ -x .venv/bin/python ]] || fail "Headroom's own environment is missing: make setup"
stamp=$(stamp_of requirements.lock requirements/lm-eval.txt scripts/lm_eval.sh)
if ! is_made "$stamp"; then
    make_venv
    echo "lm-eval: installing $(grep -c '==' requirements/lm-eval.txt) pinned packages"
    install_pinned -r requirements/lm-eval.txt
    packages() { "$1" -c 'import sysconfig; print(sysconfig.get_path("purelib"))'; }
    packages .venv/bin/python >"$(packages "$VENV/bin/python")/headroom.pth"
    echo "$stamp" >"$VENV/setup-stamp"
fi

# The fixtures of tests/conftest.py need PostgreSQL and Django; --confcutdir leaves them out.
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1} HF_HUB_OFFLINE=1 HF_DATASETS_OFFLINE=1
exec "$VENV/bin/python" -m pytest --confcutdir=tests/lm_eval tests/lm_eval "$@"
