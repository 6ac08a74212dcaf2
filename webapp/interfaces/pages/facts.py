"""The settings that tell recipes apart, in words. Pure functions of a stored configuration."""

from typing import Any

from training.schema import Resources

Config = dict[str, Any]


def key_settings(config: Config) -> list[tuple[str, str]]:
    """(name, value) of what the paper varies: loss, averages, off-policy depth, batch, length control, head."""
    rollout, off, loss = config["rollout"], config["offpolicy"], config["loss"]
    precision, evaluation = config["precision"], config["eval"]
    return [
        ("Loss", f"{loss['type'].upper()}{_clips(loss)}"),
        ("Averaged over", f"{loss['aggregation']}s"),
        (
            "Advantage",
            f"divided by the {config['advantage']['norm']}'s std".replace("the none's std", "nothing"),
        ),
        ("Batch", f"{rollout['prompts_per_step']} prompts × {rollout['generations_per_prompt']} generations"),
        ("Off-policy", f"{off['mode']}, {off['k']}" if off["k"] else "synchronous"),
        ("Zero-variance prompts", "left out" if config["filter"]["zero_variance"] == "drop" else "kept"),
        ("Curriculum", config["curriculum"]["mode"].replace("_", " ")),
        ("Length control", config["length"]["mode"]),
        ("Head", f"{precision['head_generator']} / {precision['head_trainer']}"),
        ("Learning rate", f"{config['optimizer']['lr']:g}"),
        (
            "Evaluation",
            f"{evaluation['prompts']} prompts, mean@{evaluation['k']}, every {evaluation['every_steps']} steps",
        ),
    ]


def _clips(loss: Config) -> str:
    words = {"eps_low": "low", "eps_high": "high", "eps_max": "cap"}
    shown = [f"{word} {loss[name]:g}" for name, word in words.items() if loss.get(name) is not None]
    return f" ({', '.join(shown)})" if shown else ""


def devices(config: Config) -> int:
    """What a run of this configuration holds: GPUs where there are any, else CPU cores."""
    return Resources.model_validate(config["resources"]).devices
