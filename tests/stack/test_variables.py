import re
import subprocess

import pytest

from stack.environment import ROOT
from stack.variables import VARIABLES, VariablesError, check, problems, unknown

CODE = ("webapp", "worker", "stack", "training", "headroom", "observability", "scaling")
READS = re.compile(r"\b(HEADROOM_[A-Z0-9_]*[A-Z0-9]|DATABASE_URL|REDIS_URL|RAY_ADDRESS|RAY_AUTH_[A-Z_]+)\b")


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("HEADROOM_HTTPS", "true", "HEADROOM_HTTPS must be 1 (on) or 0 (off), not 'true'."),
        ("HEADROOM_RETRIES", "-1", "HEADROOM_RETRIES must be at least 0, not -1."),
        ("HEADROOM_RETRIES", "2.5", "HEADROOM_RETRIES must be a whole number, not '2.5'."),
        ("HEADROOM_IMPORT_MAX_BYTES", "1GB", "HEADROOM_IMPORT_MAX_BYTES must be a number, not '1GB'."),
        ("HEADROOM_MIN_FREE_BYTES", "nan", "HEADROOM_MIN_FREE_BYTES must be a number, not 'nan'."),
        (
            "HEADROOM_SMTP_TLS",
            "yes",
            "HEADROOM_SMTP_TLS must be one of starttls, tls, ssl, none, off, not 'yes'.",
        ),
        (
            "DATABASE_URL",
            "mysql://u:geheim@h/n",
            "DATABASE_URL must begin with postgresql:// or postgres://, not with mysql://.",
        ),
        (
            "DATABASE_URL",
            "localhost",
            "DATABASE_URL must begin with postgresql:// or postgres://, but has no scheme.",
        ),
        (
            "DATABASE_URL",
            "postgresql://u:geheim@h",
            "DATABASE_URL names no database: it must end with /NAME.",
        ),
        ("REDIS_URL", "redis://:6379", "REDIS_URL names no host: redis://HOST."),
        ("REDIS_URL", "redis://h:port", "REDIS_URL is no address: its port or brackets are wrong."),
        (
            "RAY_ADDRESS",
            "head:8265",
            "RAY_ADDRESS must begin with http:// or https://, but has no scheme.",
        ),
        (
            "HEADROOM_CHECKPOINTS_URL",
            "s3://somebody:geheim@bucket/x",
            "HEADROOM_CHECKPOINTS_URL must not hold credentials: they are secrets of the project, or variables of the "
            "cluster's nodes.",
        ),
        (
            "HEADROOM_CHECKPOINTS_URL",
            "/mnt/nfs",
            "HEADROOM_CHECKPOINTS_URL must begin with file:// or s3:// or gs:// or abfs://, but has no scheme.",
        ),
        (
            "HEADROOM_CHECKPOINTS_URL",
            "file://mnt/nfs",
            "HEADROOM_CHECKPOINTS_URL names no folder: file:///FOLDER.",
        ),
        (
            "HEADROOM_CHECKPOINTS_ENDPOINT",
            "https://minio:9000",
            "HEADROOM_CHECKPOINTS_ENDPOINT is set without a HEADROOM_CHECKPOINTS_URL that begins with s3://.",
        ),
        (
            "RAY_AUTH_TOKEN_PATH",
            "/no/such/file",
            "RAY_AUTH_TOKEN_PATH names the file /no/such/file, which does not exist or cannot be read.",
        ),
    ],
)
def test_a_wrong_value_is_one_sentence(name: str, value: str, sentence: str) -> None:
    given = {name: value} | ({"HEADROOM_SMTP_HOST": "mail"} if "SMTP" in name else {})

    assert list(problems(given)) == [sentence]
    assert "geheim" not in sentence


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"HEADROOM_OIDC_ISSUER": "https://id"}, "without HEADROOM_OIDC_CLIENT_ID"),
        (
            {"HEADROOM_OIDC_NAME": "x"},
            "without HEADROOM_OIDC_CLIENT_ID and HEADROOM_OIDC_ISSUER",
        ),
        ({"HEADROOM_SMTP_PORT": "25"}, "HEADROOM_SMTP_PORT is set without HEADROOM_SMTP_HOST"),
        ({"HEADROOM_SMTP_HOST": "m", "HEADROOM_SMTP_USER": "u"}, "set both or neither"),
        ({"HEADROOM_SMTP_HOST": "m", "HEADROOM_EMAIL_URL": "console:"}, "are both set"),
        ({"RAY_ADDRESS": "http://head:8265"}, "HEADROOM_URL is not set"),
        ({"RAY_AUTH_TOKEN": "t", "RAY_AUTH_MODE": "disabled"}, "RAY_AUTH_MODE is not token"),
    ],
)
def test_what_is_set_by_half_is_named(given: dict[str, str], words: str) -> None:
    (sentence,) = problems(given)
    assert words in sentence


def test_a_whole_deployment_is_well() -> None:
    given = {
        "DATABASE_URL": "postgresql://u:p@db:5432/headroom?sslmode=require",
        "REDIS_URL": "rediss://:p@redis:6379/0",
        "RAY_ADDRESS": "http://head:8265",
        "HEADROOM_URL": "https://headroom.example.com",
        "HEADROOM_HTTPS": "1",
        "HEADROOM_IMPORT_MAX_BYTES": "1e9",
        "HEADROOM_OIDC_ISSUER": "https://id.example.com",
        "HEADROOM_OIDC_CLIENT_ID": "headroom",
        "HEADROOM_SMTP_HOST": "mail",
        "HEADROOM_SMTP_USER": "u",
        "HEADROOM_SMTP_PASSWORD": "p",
        "HEADROOM_RETRIES": "",
    }
    check(given)
    check({"REDIS_URL": "unix:///run/redis.sock", "RAY_ADDRESS": "http://127.0.0.1:8265"})


def test_all_that_is_wrong_is_said_at_once() -> None:
    with pytest.raises(VariablesError, match=r"HEADROOM_HTTPS .*\n.*HEADROOM_RETRIES "):
        check({"HEADROOM_HTTPS": "on", "HEADROOM_RETRIES": "x"})


def test_a_misspelt_variable_is_named_with_the_nearest() -> None:
    (sentence,) = unknown({"HEADROOM_ALOWED_HOSTS": "x", "HOME": "/"})
    assert sentence.endswith("did you mean HEADROOM_ALLOWED_HOSTS?")


def test_every_variable_that_the_code_names_is_described() -> None:
    files = subprocess.run(
        ["git", "ls-files", *CODE, "manage.py"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    named = {
        name
        for file in files
        if file.endswith(".py") and (ROOT / file).exists()
        for name in READS.findall((ROOT / file).read_text())
    }
    described = {variable.name for variable in VARIABLES}
    # Attributes of settings that share the prefix, and the stem of a group.
    assert {name for name in named if not name.startswith("HEADROOM_OIDC")} <= described
    assert len(described) == len(VARIABLES)
