"""How the web server and the worker are seen from outside: request ids, log lines, metrics, spans, error reports."""
