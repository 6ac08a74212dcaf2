"""A WSGI application for the tests of the web worker: says how long the body was, and reads none of /unread."""


def application(environ, start_response):
    size = 0
    while environ["PATH_INFO"] != "/unread" and (data := environ["wsgi.input"].read(65536)):
        size += len(data)
    body = f"{environ['REQUEST_METHOD']} {environ['PATH_INFO']} {size}".encode()
    start_response("200 OK", [("Content-Length", str(len(body))), ("Content-Type", "text/plain")])
    return [body]
