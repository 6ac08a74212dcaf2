"""Training: recipes, tasks and records (light half); the driver, engines and trainer (heavy half).

The light half (`recipe`, `schema`, `records`, `tasks`, `models`) imports neither torch, Ray, vLLM nor transformers.
"""
