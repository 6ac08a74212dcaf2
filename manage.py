#!/usr/bin/env python
"""Django's command line for Headroom (`python manage.py up` starts the whole local stack)."""

import os
import sys


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webapp.settings")
    choose_home(sys.argv)
    from django.core.management import execute_from_command_line

    from stack.environment import HomeError
    from stack.variables import VariablesError

    try:
        execute_from_command_line(sys.argv)
    except (HomeError, VariablesError) as error:
        sys.exit(f"error: {error}")


def choose_home(arguments: list[str]) -> None:
    """`--home DIR` decides before the settings are read, which keep their key in that folder."""
    for position, argument in enumerate(arguments):
        if argument.startswith("--home="):
            os.environ["HEADROOM_HOME"] = argument.removeprefix("--home=")
        elif argument == "--home" and position + 1 < len(arguments):
            os.environ["HEADROOM_HOME"] = arguments[position + 1]


if __name__ == "__main__":
    main()
