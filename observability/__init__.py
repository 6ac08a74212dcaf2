"""What every part uses to be followed from outside: ids of a click and a run, log lines, traces, error reports.

Standard library only on import; OpenTelemetry and Sentry are imported where a variable asks for them, and not before.
docs/observability.md has the variables.
"""
