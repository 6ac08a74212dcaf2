"""`python -m benchmarks.make_data`: the made project, in the installation that the environment names."""

import os
import sys

import django


def main(arguments: list[str]) -> None:
    """What `--help` says."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webapp.settings")
    django.setup()
    from benchmarks.made.command import Command

    Command().run_from_argv(["benchmarks", "make_data", *arguments])


if __name__ == "__main__":
    main(sys.argv[1:])
