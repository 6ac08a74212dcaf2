"""Training: recipes, tasks and records (light half); driver, engines and trainer (heavy half).

Where to look, by question:

    what a recipe may say, and whether it can run     schema/  recipe  hints  models  devices
    prompts, data files, who judges a response        tasks/  data/  verifiers/  usable
    what is minimised                                 losses  advantages  objective (docs/losses.md)
    how an update is made                             trainer  network  critic  optimization  batching  meter
    how responses are made and scored                 engines/  rollouts  codec  chat
    how new weights reach the generator               transfer
    which prompt comes next, and how stale it may be  curriculum  staleness
    the loops of a run                                driver  generation  training_loop  publisher  evaluator
                                                      waiting  launch
    which process runs where, and what if it dies     cluster  placement  actors  parts
    what is measured and reported                     stepmetrics  evaluation  parity  accounting  flops  records
                                                      reporting
    what survives a stop                              checkpoints  snapshot  seeds
    models that come from elsewhere, or go there      model_hub  export

The light half (`schema`, `recipe`, `hints`, `models`, `tasks`, `data`, `verifiers`, `records`) imports neither torch,
Ray, vLLM nor transformers. The base model of the default task is made by `pretrain`.
"""
