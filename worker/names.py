"""Names of the tasks: all that the web side knows of the worker."""

DISPATCH = "worker.tasks.dispatch"  # (run_id): hand what waits for this run to Ray Jobs
REFIT = "worker.tasks.refit"  # (run_id): new evaluation points wait for a fit
ALARMS = "worker.tasks.alarms"  # (run_id): new records wait to be judged by the alarms' rules
RECONCILE = "worker.tasks.reconcile"  # (): find what hints were lost, ask Ray how its jobs are
CLEAN_UP = "worker.tasks.clean_up"  # (): remove what projects' policies let go
DELIVER = "worker.tasks.deliver"  # (): alerts wait to be sent through their channels
EXAMPLE = "worker.tasks.bring_example"  # (): the example project is not there yet
IMPORT = "worker.tasks.import_runs"  # (): an import waits for its turn
