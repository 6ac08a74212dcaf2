#!/usr/bin/env bash
# Asks MLflow's server and ours the same questions about the same runs (benchmarks/bench_mlflow.py). MLflow lives in
# .venv-mlflow, an environment of its own, made once. PYTHON=/path/to/python3.x chooses its interpreter (3.11 or newer).
# Arguments go to the benchmark.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

UV=uv==0.13.8
VENV=.venv-mlflow

fail() {
    echo "mlflow: $1" >&2
    exit 1
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
    echo "mlflow: making $VENV with $python, $(grep -c '==' requirements/mlflow.txt) pinned packages"
    "$python" -m venv --clear "$VENV"
    "$VENV/bin/python" -m pip install --quiet "$UV"
    "$VENV/bin/uv" pip install --quiet --python "$VENV/bin/python" --no-deps -r requirements/mlflow.txt
}

[[ -x .venv/bin/python ]] || fail "Headroom's own environment is missing: make setup"
stamp=$(cat requirements/mlflow.txt scripts/mlflow.sh | sha256sum | cut -d' ' -f1)
if [[ "$(cat "$VENV/setup-stamp" 2>/dev/null || true)" != "$stamp" ]]; then
    make_environment
    echo "$stamp" >"$VENV/setup-stamp"
fi
exec .venv/bin/python -m benchmarks.bench_mlflow --mlflow "$VENV" "$@"
