"""Who runs the commands of the docs. A line of a block marked `sh` stands in exactly one of these tables.

RUN: tests/docs/test_commands.py types it, in the order of its page. ELSEWHERE: another test runs the same command, with
other values. NOT_RUN: nothing runs it, and why; only its program and its options are held to what there is today.
`export NAME=...` is in none: the name is looked up among the variables that somebody reads.
"""

API_PAGE = "docs/api.md"  # tests/test_api_doc.py runs every block of it, as it stands

RUN = {
    "python -m scaling simulate --A 0.61 --B 1.92 --c-mid 2542 --r0 0.1 --seed 1 > a.csv",
    "python -m scaling simulate --A 0.58 --B 2.4 --c-mid 2000 --r0 0.1 --seed 2 > b.csv",
    "python -m scaling plan a.csv --target 0.55",
    "python -m scaling plan a.csv b.csv --budget 20000",
    "python -m scaling plan a.csv --delta 0.01",
    "python -m scaling compare a.csv b.csv --json",
    "python manage.py launch_recipes tiny-scalerl tiny-deepseek-grpo --label pilot --seeds 0 1 2",
    "mkdir -p var/data",
    "cp mine.jsonl var/data/",
    'python -c "from headroom.installed import code_folder; print(code_folder())"',
    'python manage.py create_organisation lab "The lab" ada',
    'python manage.py create_project alignment "Alignment" --organisation lab',
    "python manage.py add_member ada alignment reviewer",
    ".venv/bin/python manage.py launch_recipes tiny-scalerl --label tutorial --budget-hours 0.33",
    ".venv/bin/python manage.py add_member grace default reviewer",
    ".venv/bin/python -m scaling simulate --A 0.61 --B 1.92 --c-mid 2542 --r0 0.1 > points.csv",
    ".venv/bin/python -m scaling forecast points.csv",
}

# The test, and a word of its file that shows that it is about this command.
_IMPORT = (
    "tests/headroom/test_importing.py::test_a_table_is_imported_and_its_runs_are_printed",
    '"import", "csv"',
)
_FOLDER = ("tests/headroom/test_importing.py::test_a_folder_is_packed_on_the_way", '"import"')
_RESUME = (
    "tests/headroom/test_importing.py::test_a_broken_file_ends_with_2_and_one_line_and_a_mended_one_goes_on",
    "--resume",
)
_STORE = (
    "tests/headroom/test_importing.py::test_a_store_of_mlflow_is_imported_by_file_or_uri",
    '"import", kind, store',
)
_POSTGRESQL = ("tests/headroom/test_mlflow_store.py::test_a_postgresql_store_is_copied", "postgresql")
_TAIL = ("tests/headroom/test_tailing.py::test_the_command", '"tail"')
_SAMPLES = ("tests/headroom/test_dumps.py::test_a_folder_of_dumps", '"samples"')
_SYNC = ("tests/headroom/test_syncing.py::test_the_command", '"sync"')
_STUDY = (
    "tests/training/study/test_command.py::test_a_check_says_what_would_run",
    '"run_study"',
)
_UP = ("tests/stack/test_supervisor.py", '"manage.py", "up"')
_BACKUP = (
    "tests/webapp/operation/test_backups.py::test_everything_is_there_again_in_another_installation",
    '"backup"',
)
_MOVED = (
    "tests/webapp/operation/project_transfer/test_transfer.py::test_a_project_is_the_same_in_another_installation",
    '"import_project"',
)
_DOCTOR = (
    "tests/webapp/record/health/test_schema.py::test_doctor_says_what_is_wrong_and_ends_with_an_error",
    '"doctor"',
)
_CLEAN = (
    "tests/webapp/record/retention/test_services.py::test_the_dry_run_says_what_would_go_and_removes_nothing",
    '"clean_up"',
)
_SET = ("tests/webapp/record/runs/test_launch_set.py::test_command", '"launch_recipes"')
_ENV = ("tests/deploy/test_compose.py::test_secrets_are_drawn_anew_each_time", "env_file")
_CSV = """import csv metrics.csv --columns '{"step": "iteration", "pass_rate": "val_acc"}' --devices 8 --task math"""

ELSEWHERE = {
    "python -m scaling axis RUNS.csv --column size --value 72e9 --at 1e20 --at 2e20": (
        "tests/scaling/test_cli_axis.py::test_the_curve_of_an_unseen_size",
        '"axis"',
    ),
    "python -m training memory scalerl --model dense-8b": (
        "tests/training/test_memory.py::test_the_command_says_what_a_rank_takes_and_exits_by_whether_it_fits",
        "MEMORY",
    ),
    "python -m training evaluate RUN_DIR --task gsm8k --k 4": (
        "tests/training/test_evaluate.py::test_a_checkpoint_is_its_model_with_the_lengths_of_its_run", "--task",
    ),
    "python -m scaling calibrate RUNS.csv": (
        "tests/scaling/test_calibration.py::test_both_programs_write_the_same_tables",
        '"calibrate"',
    ),
    f"python -m headroom {_CSV}": _IMPORT,
    "python -m headroom import wandb wandb/ --pass-rate eval/accuracy": _FOLDER,
    "python -m headroom import auto logs/grpo.jsonl": _IMPORT,
    "python -m headroom import auto logs/grpo.jsonl --resume ID": _RESUME,
    "python -m headroom import csv grpo.csv --pass-rate val_acc --percent --name grpo --ignore lr --per-row tokens": (
        "tests/headroom/test_importing.py::test_columns_names_and_amounts_are_said_by_options", "--per-row",
    ),
    "python -m headroom import mlflow mlflow.db": _STORE,
    "python -m headroom import mlflow postgresql://reader@db.example/mlflow --experiment math": _POSTGRESQL,
    'curl -H "Authorization: Bearer $HEADROOM_TOKEN" $HEADROOM_URL/api/v1/imports -F kind=csv '
    """-F 'options={"columns": {"step": "iteration", "pass_rate": "val_acc"}, "devices": 8}' """
    "-F files=@metrics.csv": (
        "tests/webapp/interfaces/api/test_imports.py::test_a_table_is_imported_and_followed_to_its_end", "imports",
    ),
    "python -m headroom tail FILE --devices 8 --task gsm8k --url https://headroom.example": _TAIL,
    "python -m headroom tail metrics.jsonl --devices 8 --task gsm8k --url https://headroom.example": _TAIL,
    "python -m headroom sync FOLDER --url https://headroom.example": _SYNC,
    "python -m headroom samples rollouts/ --run RUN --url https://headroom.example": _SAMPLES,
    "make up": _UP,
    "python manage.py run_study FILE.yaml --check": _STUDY,
    "python manage.py run_study FILE.yaml --nice 19": _STUDY,
    "python manage.py up --host 0.0.0.0": _UP,
    "headroom-server up": ("tests/packaging/test_packaged_stack.py", "packaged"),
    "make wheel": ("tests/packaging/test_client.py::test_the_wheel_is_one_pure_file_of_this_version", "wheel"),
    "python manage.py backup lab.backup": _BACKUP,
    "python manage.py restore lab.backup": _BACKUP,
    "python manage.py export_project lab lab.headroom": _MOVED,
    "python manage.py import_project lab.headroom": _MOVED,
    "python manage.py import_project lab.headroom --slug math --organisation physics --person ada=lovelace": _MOVED,
    "python manage.py doctor": _DOCTOR,
    "python manage.py clean_up --dry-run": _CLEAN,
    "python manage.py clean_up --dry-run --project default": _CLEAN,
    "python manage.py clean_up": (
        "tests/webapp/record/retention/test_services.py::test_the_command_cleans_up_now", '"clean_up"',
    ),
    "python manage.py launch_recipes --leave-one-out --size tiny --seeds 0 1 2": _SET,
    "python -m training run my-task.yaml --run-dir runs/my-task": (
        "tests/training/test_main.py::test_run_end_to_end", "--run-dir",
    ),
    "deploy/docker/make_env.sh headroom.example.com > .env": _ENV,
    "curl -s http://127.0.0.1:8000/healthz": ("tests/e2e/test_story.py::test_health_names_every_part", "healthz"),
    'curl -s -H "Authorization: Bearer $TOKEN" http://127.0.0.1:8000/api/v1/status': (
        "tests/webapp/interfaces/api/test_status.py::test_the_status_is_json", "status",
    ),
    'curl -s -X POST -H "X-Request-ID: my-launch-0001" -H "Authorization: Bearer $TOKEN" '
    '-H "Content-Type: application/json" -d @body.json $HEADROOM_URL/api/v1/runs': (
        "tests/observability/test_click_to_step.py", "X-Request-ID",
    ),
    'curl -X POST $HEADROOM_URL/api/v1/studies -H "Authorization: Bearer $TOKEN" -H "Content-Type: application/json" '
    """-H "Idempotency-Key: loo-1" -d '{"name": "Which choices matter?", "recipe": "tiny-scalerl", """
    """"changes": ["loss=dapo", "head=bfloat16"], "seeds": [0, 1, 2]}'""": (
        "tests/webapp/interfaces/api/test_studies.py::test_a_study_is_made_once_for_a_key", "studies",
    ),
    ".venv/bin/python -m benchmarks.bench_pages --home big --runs 10000 --points 100000000": (
        "tests/benchmarks/test_pages.py::test_pages_are_asked_in_process_and_over_http", "bench_pages",
    ),
    ".venv/bin/python -m benchmarks.bench_paint --home big": (
        "tests/benchmarks/test_pages.py::test_first_paint_is_measured_in_chromium", "bench_paint",
    ),
    ".venv/bin/python -m benchmarks.bench_paint --site http://127.0.0.1:8000 --password PASSWORD": (
        "tests/benchmarks/test_pages.py::test_the_pages_of_a_running_server_are_found_by_its_links", "bench_paint",
    ),
}  # fmt: skip

_DOCKER, _KUBERNETES = "needs a container engine", "needs a Kubernetes cluster"
_INDEX = "installs from the index; tests/packaging installs the same wheel and extras from the lock"
NOT_RUN = {
    "make demo": "trains two runs for minutes, on the whole machine; benchmarks/bench_demo.py runs it",
    "make test": "runs this test",
    "bash scripts/mlflow.sh --home big --curves-only": "installs MLflow into an environment of its own; takes minutes",
    "python -m headroom import mlflow-server --address https://mlflow.example": (
        "needs an MLflow server under a public address; scripts/trackers.sh has a real one"
    ),
    "grep -h my-launch-0001 var/logs/web.log var/logs/celery.log var/runs/*/attempt-*.jsonl": (
        "reads the files of an installation that has run"
    ),
    "docker compose build": _DOCKER,
    "docker compose up --detach": _DOCKER,
    "docker compose logs prepare": _DOCKER,
    "kubectl create namespace headroom": _KUBERNETES,
    "kubectl --namespace headroom create secret generic headroom-secrets "
    "--from-literal=DATABASE_URL=postgresql://USER:PASSWORD@HOST:5432/headroom "
    "--from-literal=REDIS_URL=redis://:PASSWORD@HOST:6379/0 --from-literal=RAY_AUTH_TOKEN=$(openssl rand -hex 32) "
    "--from-literal=HEADROOM_SECRET_KEY=$(openssl rand -hex 48) "
    "--from-literal=HEADROOM_SECRETS_KEY=$(openssl rand -hex 32) "
    "--from-literal=HEADROOM_METRICS_TOKEN=$(openssl rand -hex 24)": _KUBERNETES,
    "kubectl apply --kustomize deploy/kubernetes": f"{_KUBERNETES}; make manifests holds the files to its schemas",
    "kubectl --namespace headroom logs job/headroom-prepare": _KUBERNETES,
    "pip install dist/headroom-0.1.0-py3-none-any.whl": _INDEX,
    'uv pip install "dist/headroom-0.1.0-py3-none-any.whl[server]" --constraint requirements.lock': _INDEX,
    'uv pip install "dist/headroom-0.1.0-py3-none-any.whl[server,train]" --constraint requirements.lock': _INDEX,
}
