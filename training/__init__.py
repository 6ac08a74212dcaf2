"""Training: recipes, tasks and records (light half); driver, engines and trainer (heavy half).

Where to look, by question:

    what a recipe may say, and whether it can run     schema/  recipe  hints  sizes/
    prompts, data files, who judges a response        tasks/  data/  verifiers/  usable
    what is minimised                                 losses  advantages  objective (docs/losses.md)
    how an update is made, by one rank or several     trainer/
    how responses are made and scored                 engines/  rollouts  codec  chat
    how new weights reach the generator               transfer  broadcast
    the loops of a run: order, staleness, resume      driver/  evaluation
    which process runs where, and what if it dies     cluster/
    from a recipe to an exit status, and records      launch  reporting  records  errors
    what a resume goes on from                        checkpoints  seeds
    waiting with a limit, addresses of processes      waiting  addresses
    models: folders, the hub, saved back, their size  models  model_hub  export  weights  flops

The light half (`schema`, `recipe`, `hints`, `models`, `tasks`, `data`, `verifiers`, `records`, `log_copy`) imports
neither torch, Ray, vLLM nor transformers. The base model of the default task is made by `pretrain`.
"""

import gc

# The imports of torch and transformers make a million objects that stay: by default a fifth of a process's start goes
# into looking through them.
gc.set_threshold(50_000, 20, 20)
