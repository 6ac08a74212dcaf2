"""The version of Headroom: of its wheel, its client and its server. It is written here and nowhere else."""

__version__ = "0.1.0"

USER_AGENT = f"headroom/{__version__}"  # what the client calls itself
