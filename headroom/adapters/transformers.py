"""`HeadroomCallback` for the trainers of transformers and TRL.

    trainer = GRPOTrainer(..., callbacks=[HeadroomCallback(task="math", pass_rate="eval_rewards/accuracy_reward/mean")])

Needs transformers; nothing else of Headroom does.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from headroom.adapters.beginning import JOURNAL, StepClock, begin
from headroom.adapters.naming import USUAL_PASS_RATE, of_transformers
from headroom.dumps import Dumps
from headroom.run import Run
from headroom.values import is_number
from headroom.warned import log


class HeadroomCallback(TrainerCallback):
    """Reports what the trainer logs, with device-hours and tokens beside it; only from the first process.

    pass_rate: which of the trainer's evaluation logs is the held-out pass rate, e.g. `eval_rewards/NAME/mean` of a
    reward that is 1 or 0; by default that of TRL's own `accuracy_reward`. Without either no curve is fitted.
    settings: of `headroom.init` (task, model, project, name, url, token, mode, ...). Seed and devices are those of the
    trainer's arguments.

    The journal lies in the trainer's output folder, so that a training that resumes from a checkpoint goes on with the
    same run as its next attempt. Where the server cannot make the run at the start, the training goes on offline. With
    TRL's `log_completions` the completions are the run's samples.
    """

    def __init__(self, pass_rate: str | None = None, **settings: Any) -> None:
        self.run: Run | None = None
        self._pass_rate = pass_rate
        self._settings = settings
        self._clock = StepClock(1)
        self._tokens: int | float | None = None
        self._said = False
        self._completions: Dumps | None = None

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        if not state.is_world_process_zero or self.run is not None:
            return
        self.run = begin(
            {
                "name": args.run_name or Path(args.output_dir or "run").name,
                "config": _config(args, kwargs.get("model")),
                "model": _name_of(kwargs.get("model")),
                "seed": args.seed,
                "device": {"kind": args.device.type, "count": args.world_size},
                "journal": Path(args.output_dir or ".") / JOURNAL,
                "resumed_from_step": state.global_step or None,
            }
            | self._settings
        )
        self._clock = StepClock(args.world_size, self.run.compute["device_hours"] or 0.0)
        if getattr(args, "log_completions", False):  # of TRL, which writes a step's after it was logged
            self._completions = Dumps(Path(args.output_dir or ".") / "completions", "train")

    def on_step_begin(self, *args: Any, **kwargs: Any) -> None:
        self._clock.start()

    def on_step_end(self, *args: Any, **kwargs: Any) -> None:
        self._clock.stop()

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        if self.run is None or not logs:
            return
        self._tokens = logs.get("num_tokens") or state.num_input_tokens_seen or self._tokens
        compute = {
            "device_hours": self._clock.device_hours,
            "tokens": self._tokens,
            "flops": state.total_flos,
        }
        known = {name: value for name, value in compute.items() if value}
        metrics = {name: value for name, value in of_transformers(logs).items() if is_number(value)}
        self.run.log(metrics, step=state.global_step, compute=known)
        self._log_pass_rate(args, state, logs, kwargs.get("eval_dataloader"))
        if self._completions is not None:
            self._completions.log(self.run)

    def _log_pass_rate(
        self, args: TrainingArguments, state: TrainerState, logs: Mapping[str, Any], loader: Any
    ) -> None:
        assert self.run is not None
        names = [name for name in logs if USUAL_PASS_RATE.fullmatch(name)]
        name = self._pass_rate or (names[0] if names else None)
        if name is not None and name in logs:
            k = getattr(args, "num_generations_eval", None) or getattr(args, "num_generations", None) or 1
            n_prompts = _size(loader) or 1
            self.run.log_evaluation(logs[name], n_prompts=n_prompts, k=k, step=state.global_step)
        elif not self._said and any(name.startswith("eval_") for name in logs):
            self._said = True
            choices = ", ".join(name for name in logs if name.startswith("eval_") and name.endswith("mean"))
            log.warning(
                "headroom: no curve is fitted before HeadroomCallback(pass_rate=...) names the pass rate among %s",
                choices or "the evaluation's logs",
            )

    def on_train_end(self, *args: Any, **kwargs: Any) -> None:
        if self.run is not None and self._completions is not None:
            self._completions.log(self.run, all_of_them=True)
        if self.run is not None:
            self.run.finish()


def _config(args: TrainingArguments, model: Any) -> dict[str, Any]:
    """The trainer's arguments, secrets left out as transformers does, and the model's configuration."""
    config = getattr(model, "config", None)
    return {"trainer": args.to_sanitized_dict(), "model": config.to_diff_dict() if config is not None else {}}


def _name_of(model: Any) -> str | None:
    return getattr(getattr(model, "config", None), "name_or_path", None) or None


def _size(loader: Any) -> int | None:
    """Prompts of the held-out set; TRL's sampler repeats them, the data set does not."""
    try:
        return len(loader.dataset)
    except (AttributeError, TypeError):
        return None
