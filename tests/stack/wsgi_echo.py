"""A WSGI application for the tests of the web worker: says how long the body was, and reads none of /unread. /file and
/made are answers of LONG bytes, a file's and made as they are sent."""

import tempfile

LONG = 40_000_000


def application(environ, start_response):
    if environ["PATH_INFO"] in ("/file", "/made"):
        start_response(
            "200 OK", [("Content-Length", str(LONG)), ("Content-Type", "application/octet-stream")]
        )
        return (
            long_file(environ)
            if environ["PATH_INFO"] == "/file"
            else (b"x" * 100_000 for _ in range(LONG // 100_000))
        )
    size = 0
    while environ["PATH_INFO"] != "/unread" and (data := environ["wsgi.input"].read(65536)):
        size += len(data)
    body = f"{environ['REQUEST_METHOD']} {environ['PATH_INFO']} {size}".encode()
    start_response("200 OK", [("Content-Length", str(len(body))), ("Content-Type", "text/plain")])
    return [body]


def long_file(environ):
    file = tempfile.TemporaryFile()  # noqa: SIM115 - the server closes it
    file.write(b"x" * LONG)
    file.seek(0)
    return environ["wsgi.file_wrapper"](file)
