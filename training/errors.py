"""One line of an error, for a log, a page or another error's message."""


def last_line(error: BaseException) -> str:
    """Of its message; an error from another process carries that one's traceback before it. Its type without any."""
    return _lines(error)[-1]


def first_line(error: BaseException) -> str:
    """Of its message; libraries put advice after it. Its type without any."""
    return _lines(error)[0]


def telling_line(error: BaseException) -> str:
    """The first of its message, or the last where the message carries a traceback."""
    traced = "Traceback (most recent call last)" in str(error)
    return last_line(error) if traced else first_line(error)


def _lines(error: BaseException) -> list[str]:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines or [type(error).__name__]
