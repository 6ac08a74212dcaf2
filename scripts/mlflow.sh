#!/usr/bin/env bash
# Asks MLflow's server and ours the same questions about the same runs (benchmarks/bench_mlflow.py). MLflow lives in
# .venv-mlflow, an environment of its own, made once. PYTHON=/path/to/python3.x chooses its interpreter (3.11 or newer).
# A first argument `benchmarks.NAME` chooses another benchmark; the others go to it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

NAME=mlflow
VENV=.venv-mlflow
source scripts/environment.sh

[[ -x .venv/bin/python ]] || fail "Headroom's own environment is missing: make setup"
stamp=$(stamp_of requirements/mlflow.txt scripts/mlflow.sh)
if ! is_made "$stamp"; then
    make_venv
    echo "mlflow: installing $(grep -c '==' requirements/mlflow.txt) pinned packages"
    install_pinned -r requirements/mlflow.txt
    echo "$stamp" >"$VENV/setup-stamp"
fi
benchmark=benchmarks.bench_mlflow
if [[ ${1:-} == benchmarks.* ]]; then
    benchmark=$1
    shift
fi
exec .venv/bin/python -m "$benchmark" --mlflow "$VENV" "$@"
