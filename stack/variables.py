"""Every environment variable that Headroom's server reads: what it means, and what is wrong with the values it has.

The settings ask `check` before they read any of them, so that a wrong or half-set variable is one sentence that names
it instead of a traceback, or of a server that quietly does something else. Standard library only.
"""

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

LOOPBACK = ("localhost", "127.", "::1")


class VariablesError(RuntimeError):
    """Variables cannot be used; the message has a line for each and says how to mend it."""


@dataclass(frozen=True)
class Variable:
    """`kind`: text, secret, list (with commas), flag (1 or 0), integer, number, url, folder, or file (that exists)."""

    name: str
    group: str
    meaning: str
    kind: str = "text"
    default: str = ""  # in words; empty: nothing
    least: float | None = None
    schemes: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    server: bool = True  # False: read by trainers and the client alone


PARTS, WEB, MAIL, OPENID, CLUSTER, LIMITS, WATCHING, CLIENT = (
    "Where the parts are",
    "The web server",
    "Mail",
    "Sign-in with OpenID Connect",
    "The cluster",
    "Limits and rules",
    "Logs, metrics, traces, error reports",
    "The client and trainers",
)
WEB_SCHEMES = ("http", "https")

VARIABLES = (
    Variable("HEADROOM_HOME", PARTS, "folder that holds all state of an installation", "folder", "`var`"),
    Variable(
        "DATABASE_URL",
        PARTS,
        "PostgreSQL 14 or newer: `postgresql://USER:PASSWORD@HOST:5432/NAME`",
        "url",
        "an embedded one",
        schemes=("postgresql", "postgres"),
    ),
    Variable(
        "REDIS_URL",
        PARTS,
        "Redis or Valkey, the broker: `redis://:PASSWORD@HOST:6379/0`",
        "url",
        "an embedded one",
        schemes=("redis", "rediss", "unix"),
    ),
    Variable(
        "RAY_ADDRESS",
        PARTS,
        "dashboard of the Ray cluster, which has its Jobs API: `http://HOST:8265`",
        "url",
        "an embedded one",
        schemes=WEB_SCHEMES,
    ),
    Variable(
        "HEADROOM_URL",
        PARTS,
        "this web server as the nodes of the cluster and links in messages reach it",
        "url",
        "where `up` listens",
        schemes=WEB_SCHEMES,
    ),
    Variable("RAY_AUTH_TOKEN", CLUSTER, "token of the Ray cluster", "secret"),
    Variable("RAY_AUTH_TOKEN_PATH", CLUSTER, "file that holds it", "file", "`~/.ray/auth_token`"),
    Variable(
        "RAY_AUTH_MODE", CLUSTER, "`token` where the cluster wants one", choices=("token", "disabled", "k8s")
    ),
    Variable(
        "HEADROOM_CLUSTER_GROWS",
        CLUSTER,
        "nodes are added where runs need them: up to 8 runs are handed over that do not fit now",
        "flag",
    ),
    Variable("HEADROOM_JOB_PYTHON", CLUSTER, "the Python that runs a job on a node", default="the worker's own"),
    Variable("HEADROOM_CHECKPOINTS_URL", CLUSTER,
             "store that checkpoints are copied to, for a resume on another machine, and files of runs moved to: "
             "`file:///mnt/nfs/checkpoints` or `s3://BUCKET/PREFIX`, without credentials", "url",
             schemes=("file", "s3", "gs", "abfs")),
    Variable("HEADROOM_CHECKPOINTS_ENDPOINT", CLUSTER, "address of an S3 that is not Amazon's: `https://minio:9000`",
             "url", "Amazon's", schemes=WEB_SCHEMES),
    Variable("HEADROOM_OVERSUBSCRIBE", CLUSTER, "parts of a run may share cores", "flag"),
    Variable("HEADROOM_SECRET_KEY", WEB, "signs sessions and links; the same for all processes", "secret",
             "made once, kept in `HEADROOM_HOME/secrets`"),
    Variable("HEADROOM_SECRETS_KEY", WEB, "encrypts the secrets of projects; several with commas, the newest first",
             "secret", "`HEADROOM_SECRET_KEY`"),
    Variable("HEADROOM_ALLOWED_HOSTS", WEB, "names under which browsers reach the server", "list",
             "`localhost,127.0.0.1,[::1]`"),
    Variable("HEADROOM_TRUSTED_ORIGINS", WEB, "origins whose forms are taken: `https://HOST`", "list"),
    Variable("HEADROOM_HTTPS", WEB, "a proxy ends TLS in front: cookies and links are for https alone", "flag"),
    Variable("HEADROOM_HSTS_SECONDS", WEB, "how long browsers remember that", "integer", "a year", least=0),
    Variable("HEADROOM_TRUSTED_PROXIES", WEB, "how many proxies of yours append to X-Forwarded-For", "integer",
             "1 with HEADROOM_HTTPS=1, else 0", least=0),
    Variable("HEADROOM_EMBED_ANCESTORS", WEB, "sites that may show shared charts in a frame", "list", "`*`"),
    Variable("HEADROOM_ALLOW_PRIVATE_HOSTS", WEB,
             "hosts that hooks, OpenID and imports may reach although they are not public", "list"),
    Variable("HEADROOM_REQUIRE_TWO_FACTOR", WEB, "who has no second factor is led to turn it on", "flag"),
    Variable("HEADROOM_DEBUG", WEB, "Django's debugging pages; never in a deployment", "flag"),
    Variable("HEADROOM_EMAIL_URL", MAIL, "`smtp://USER:PASSWORD@HOST:587`, `smtps://…`, `file:///FOLDER`, `console:`",
             "secret"),
    Variable("HEADROOM_EMAIL_FROM", MAIL, "sender", default="`headroom@localhost`"),
    Variable("HEADROOM_MAIL_FROM", MAIL, "older name of the same"),
    Variable("HEADROOM_SMTP_HOST", MAIL, "the mail server, where no URL is set"),
    Variable("HEADROOM_SMTP_PORT", MAIL, "its port", "integer", "587, or 465 with tls", least=1),
    Variable("HEADROOM_SMTP_USER", MAIL, "account there"),
    Variable("HEADROOM_SMTP_PASSWORD", MAIL, "its password", "secret"),
    Variable("HEADROOM_SMTP_TLS", MAIL, "encryption", default="`starttls`",
             choices=("starttls", "tls", "ssl", "none", "off")),
    Variable("HEADROOM_OIDC_ISSUER", OPENID, "address of the provider", "url", schemes=WEB_SCHEMES),
    Variable("HEADROOM_OIDC_CLIENT_ID", OPENID, "this installation's name there"),
    Variable("HEADROOM_OIDC_CLIENT_SECRET", OPENID, "its secret", "secret"),
    Variable("HEADROOM_OIDC_CLIENT_SECRET_FILE", OPENID, "file that holds it", "file"),
    Variable("HEADROOM_OIDC_NAME", OPENID, "what the button says", default="`OpenID`"),
    Variable("HEADROOM_OIDC_ALLOWED_DOMAINS", OPENID, "domains of addresses that may come in", "list"),
    Variable("HEADROOM_OIDC_DEFAULT_PROJECT", OPENID, "project that new people join"),
    Variable("HEADROOM_OIDC_DEFAULT_ROLE", OPENID, "their role there", default="`viewer`"),
    Variable("HEADROOM_ALARMS", LIMITS, "other rules for alarms: a file, or JSON itself"),
    Variable("HEADROOM_RETRIES", LIMITS, "retries after a failure of the infrastructure", "integer", "3", least=0),
    Variable("HEADROOM_TRACKED_LOST_MINUTES", LIMITS, "silence after which a tracked run is lost", "number", "60",
             least=0),
    Variable("HEADROOM_BATCHES_PER_SECOND", LIMITS,
             "batches of records that trainers together keep to: the more runs report, the longer each gathers",
             "number", "50", least=0.1),
    Variable("HEADROOM_MIN_FREE_BYTES", LIMITS, "room that must stay on the disk", "number", "2 GiB", least=0),
    Variable("HEADROOM_MIN_FREE_PERCENT", LIMITS, "the same, of the disk's size; the greater counts", "number", "1",
             least=0),
    Variable("HEADROOM_IMPORT_MAX_BYTES", LIMITS, "largest file of an import", "number", "1 GiB", least=1),
    Variable("HEADROOM_IMPORT_KEEP_DAYS", LIMITS, "how long files of unfinished imports stay", "number", "14", least=0),
    Variable("HEADROOM_ARTIFACT_MAX_BYTES", LIMITS, "largest file that a run keeps", "number", "1 GiB", least=1),
    Variable("HEADROOM_ARTIFACT_PROJECT_BYTES", LIMITS, "files of all runs of a project together", "number", "20 GiB",
             least=1),
    Variable("HEADROOM_EXAMPLE", LIMITS, "folder of the corpus of the example project; `none`: no such project",
             default="`corpus/miniature`"),
    Variable("HEADROOM_MODEL_ROOTS", CLUSTER, "folders below which models may be named by their path", "list",
             "those of `HEADROOM_HOME`"),
    Variable("HEADROOM_IMPORTS_AT_ONCE", LIMITS, "imports that are read at the same time", "integer", "1", least=1),
    Variable("HEADROOM_LOG_FORMAT", WATCHING, "`json`: one JSON object a line", default="`text`",
             choices=("text", "json")),
    Variable("HEADROOM_METRICS_TOKEN", WATCHING, "who sends it may read `/metrics`; at least 16 characters", "secret"),
    Variable("HEADROOM_METRICS_ALLOW", WATCHING, "networks that may read `/metrics` without a token", "list"),
    Variable("HEADROOM_METRICS_PORT", WATCHING, "where a worker answers `/metrics` itself", "integer", least=1),
    Variable("HEADROOM_METRICS_HOST", WATCHING, "the address that it listens on", default="`127.0.0.1`"),
    Variable("OTEL_EXPORTER_OTLP_ENDPOINT", WATCHING, "collector that traces are sent to: `http://HOST:4318`", "url",
             schemes=WEB_SCHEMES),
    Variable("SENTRY_DSN", WATCHING, "project of Sentry or GlitchTip that unhandled errors go to", "secret"),
    Variable("HF_TOKEN", CLIENT, "token for models and data sets of the hub", "secret", server=False),
    Variable("HF_ENDPOINT", CLIENT, "the hub, or a mirror of it", "url", "Hugging Face's", server=False),
    Variable("HF_HUB_OFFLINE", CLIENT, "the hub is not asked: a model `org/name` is the folder "
             "`HEADROOM_HOME/models/org--name`", "flag", server=False),
    Variable("HEADROOM_TOKEN", CLIENT, "API token with which the client reports", "secret", server=False),
    Variable("HEADROOM_TOKEN_FILE", CLIENT, "file that holds it", server=False),
    Variable("HEADROOM_IMPORT_TOKEN", CLIENT, "token of the tracker that is imported from", "secret", server=False),
    Variable("HEADROOM_MODE", CLIENT, "`offline`: nothing but the journal until `sync`", server=False,
             default="`online`"),
    Variable("HEADROOM_SYSTEM_METRICS", CLIENT, "`off`: what the machines do is not recorded", server=False,
             default="`on`"),
    Variable("HEADROOM_RUN", CLIENT, "id of the run that is reported to", server=False),
    Variable("HEADROOM_ATTEMPT", CLIENT, "its attempt", server=False),
    Variable("HEADROOM_SECRETS_FILE", CLIENT, "set for jobs: file with the project's secrets", server=False),
    Variable("HEADROOM_REQUEST_ID", CLIENT, "set for jobs: the request that they go back to", server=False),
    Variable("HEADROOM_WORKER_READY_FILE", CLIENT, "set by `up`: file that a ready worker makes", server=False),
)  # fmt: skip
_BY_NAME = {variable.name: variable for variable in VARIABLES}


def check(environment: Mapping[str, str]) -> None:
    """Raises VariablesError where `problems` finds any."""
    if found := list(problems(environment)):
        raise VariablesError("\n".join(found))


def problems(environment: Mapping[str, str]) -> Iterator[str]:
    """A sentence for each variable of the server that is wrong, and for each group that is set by half."""
    for variable in VARIABLES:
        value = environment.get(variable.name, "").strip()
        if variable.server and value and (reason := _wrong(variable, value)):
            yield f"{variable.name} {reason}"
    yield from _half_set({name: value.strip() for name, value in environment.items() if value.strip()})


def unknown(environment: Mapping[str, str]) -> Iterator[str]:
    """A sentence for each variable that looks like ours and is none: it would be ignored."""
    for name in sorted(environment):
        if name.startswith("HEADROOM_") and name not in _BY_NAME:
            near = difflib.get_close_matches(name, _BY_NAME, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            yield f"{name} is no variable of Headroom and is ignored{hint}"


def _wrong(variable: Variable, value: str) -> str | None:
    """What is wrong with a value, to be read after the variable's name. A secret is never repeated."""
    shown = "what it is" if variable.kind in ("secret", "url") else repr(value)
    if variable.choices and value.lower() not in variable.choices:
        return f"must be one of {', '.join(variable.choices)}, not {shown}."
    match variable.kind:
        case "flag" if value not in ("0", "1"):
            return f"must be 1 (on) or 0 (off), not {shown}."
        case "integer" | "number":
            return _wrong_number(variable, value)
        case "url":
            return _wrong_url(variable, value)
        case "file" if not Path(value).expanduser().is_file():
            return f"names the file {value}, which does not exist or cannot be read."
    return None


def _wrong_number(variable: Variable, value: str) -> str | None:
    noun = "a whole number" if variable.kind == "integer" else "a number"
    try:
        number = int(value) if variable.kind == "integer" else float(value)
    except ValueError:
        return f"must be {noun}, not {value!r}."
    if not isfinite(number):
        return f"must be {noun}, not {value!r}."
    if variable.least is not None and number < variable.least:
        return f"must be at least {variable.least:g}, not {value}."
    return None


def _wrong_url(variable: Variable, value: str) -> str | None:
    """Without the value itself, which may hold a password."""
    try:
        parts = urlsplit(value)
        _ = parts.port  # raises ValueError where it is none
    except ValueError:
        return "is no address: its port or brackets are wrong."
    if parts.scheme not in variable.schemes:
        said = f"not with {parts.scheme}://" if parts.scheme and "://" in value else "but has no scheme"
        return f"must begin with {' or '.join(f'{each}://' for each in variable.schemes)}, {said}."
    if parts.scheme == "unix":
        return None if parts.path else "names no socket: unix:///PATH."
    if variable.name == "DATABASE_URL":
        return None if parts.path.strip("/") else "names no database: it must end with /NAME."
    if variable.name == "HEADROOM_CHECKPOINTS_URL":
        return _wrong_store(parts)
    return None if parts.hostname else f"names no host: {parts.scheme}://HOST."


def _wrong_store(parts: SplitResult) -> str | None:
    if parts.username or parts.password or parts.query:
        return (
            "must not hold credentials: they are secrets of the project, or variables of the cluster's nodes."
        )
    if parts.scheme == "file":
        return None if parts.path.strip("/") and not parts.netloc else "names no folder: file:///FOLDER."
    return None if parts.hostname else f"names no bucket: {parts.scheme}://BUCKET/PREFIX."


def _half_set(given: Mapping[str, str]) -> Iterator[str]:
    yield from _openid(given)
    yield from _mail(given)
    if "HEADROOM_CHECKPOINTS_ENDPOINT" in given and not given.get("HEADROOM_CHECKPOINTS_URL", "").startswith(
        "s3:"
    ):
        yield "HEADROOM_CHECKPOINTS_ENDPOINT is set without a HEADROOM_CHECKPOINTS_URL that begins with s3://."
    address = given.get("RAY_ADDRESS", "")
    if address and not _is_here(address) and "HEADROOM_URL" not in given:
        yield (
            "RAY_ADDRESS names another machine, and HEADROOM_URL is not set: drivers there could not report. Set "
            "HEADROOM_URL to the address under which the cluster's nodes reach this web server."
        )
    if "RAY_AUTH_TOKEN" in given and given.get("RAY_AUTH_MODE", "token") != "token":
        yield "RAY_AUTH_TOKEN is set, but RAY_AUTH_MODE is not token: take one of them away."


def _openid(given: Mapping[str, str]) -> Iterator[str]:
    both = {"HEADROOM_OIDC_ISSUER", "HEADROOM_OIDC_CLIENT_ID"}
    set_here = {name for name in given if name.startswith("HEADROOM_OIDC_")}
    if set_here and (missing := sorted(both - set_here)):
        verb = "is" if len(set_here) == 1 else "are"
        yield (
            f"{', '.join(sorted(set_here))} {verb} set without {' and '.join(missing)}: OpenID needs both issuer and "
            "client id."
        )
    if {"HEADROOM_OIDC_CLIENT_SECRET", "HEADROOM_OIDC_CLIENT_SECRET_FILE"} <= set_here:
        yield (
            "HEADROOM_OIDC_CLIENT_SECRET and HEADROOM_OIDC_CLIENT_SECRET_FILE are both set: take one of them away."
        )


def _mail(given: Mapping[str, str]) -> Iterator[str]:
    smtp = sorted(name for name in given if name.startswith("HEADROOM_SMTP_"))
    if "HEADROOM_EMAIL_URL" in given and smtp:
        yield f"HEADROOM_EMAIL_URL and {', '.join(smtp)} are both set: take one way to send mail away."
    elif smtp and "HEADROOM_SMTP_HOST" not in given:
        yield f"{', '.join(smtp)} {'is' if len(smtp) == 1 else 'are'} set without HEADROOM_SMTP_HOST."
    elif ("HEADROOM_SMTP_USER" in given) != ("HEADROOM_SMTP_PASSWORD" in given):
        yield "HEADROOM_SMTP_USER and HEADROOM_SMTP_PASSWORD belong together: set both or neither."


def _is_here(address: str) -> bool:
    try:
        host = urlsplit(address).hostname or ""
    except ValueError:
        return True
    return not host or host.startswith(LOOPBACK)  # without a host: said already
