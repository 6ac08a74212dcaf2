"""Django settings. The same code serves the embedded local stack and a deployment (see `stack.environment`)."""

import gc
import os
from pathlib import Path

import dj_database_url
from csp.constants import NONE, SELF, UNSAFE_INLINE

from stack import environment, variables
from webapp.base.mail import mail_settings
from webapp.identity.signin.openid_settings import openid_settings

variables.check(os.environ)  # before anything reads them
# A start makes a million objects that stay. Looked through as often as by default, they take a fifth of its time.
gc.set_threshold(50_000, 20, 20)

BASE_DIR = Path(__file__).resolve().parent.parent
HEADROOM_HOME = environment.home()
_services = environment.services()

SECRET_KEY = os.environ.get("HEADROOM_SECRET_KEY") or environment.secret("django_key")
DEBUG = os.environ.get("HEADROOM_DEBUG") == "1"
ALLOWED_HOSTS = os.environ.get("HEADROOM_ALLOWED_HOSTS", "localhost,127.0.0.1,[::1]").split(",")
CSRF_TRUSTED_ORIGINS = [o for o in os.environ.get("HEADROOM_TRUSTED_ORIGINS", "").split(",") if o]

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "axes",
    "allauth.account",
    "allauth.mfa",
    "csp",
    "django_htmx",
    "webapp.identity.accounts",
    "webapp.identity.audit",
    "webapp.identity.secrets",
    "webapp.record.recipes",
    "webapp.record.runs",
    "webapp.interfaces.tracking",
    "webapp.record.logs",
    "webapp.record.artifacts",
    "webapp.record.samples",
    "webapp.record.health",
    "webapp.science.curves",
    "webapp.reporting.alarms",
    "webapp.reporting.alerts",
    "webapp.reporting.policies",
    "webapp.record.retention",
    "webapp.record.evaluations",
    "webapp.science.predictions",
    "webapp.science.decisions",
    "webapp.reporting.reports",
    "webapp.reporting.shares",
    "webapp.science.studies",
    "webapp.record.savedviews",
    "webapp.interfaces.imports",
    "webapp.identity.signin",
    "webapp.operation",
    "webapp.operation.observing",
    "webapp.interfaces.pages",
]
MIDDLEWARE = [
    "webapp.operation.observing.middleware.Observed",
    "django.middleware.security.SecurityMiddleware",
    "webapp.identity.audit.services.AddressOfRequest",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "csp.middleware.CSPMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "allauth.account.middleware.AccountMiddleware",
    "webapp.identity.signin.middleware.SignedInRules",
    "webapp.interfaces.pages.middleware.RouteRules",
    "axes.middleware.AxesMiddleware",
]
ROOT_URLCONF = "webapp.urls"
WSGI_APPLICATION = "webapp.wsgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": False,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "webapp.interfaces.pages.middleware.navigation",
            ],
            "builtins": ["webapp.interfaces.pages.templatetags.headroom"],
        },
    }
]

# An unset database is a clear error at first use, not at import: `manage.py up` itself runs with these settings.
DATABASES = {
    "default": dj_database_url.parse(
        _services.database_url or "postgresql://not-started.invalid/headroom",
        conn_max_age=60,
        conn_health_checks=True,
    )
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
AUTH_USER_MODEL = "accounts.User"
AUTHENTICATION_BACKENDS = [
    "axes.backends.AxesStandaloneBackend",
    "django.contrib.auth.backends.ModelBackend",
]
PASSWORD_HASHERS = ["django.contrib.auth.hashers.Argon2PasswordHasher"]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 10}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
AXES_HANDLER = "webapp.identity.signin.passwords.Limits"
AXES_CLIENT_IP_CALLABLE = "webapp.identity.audit.services.client_address"
AXES_FAILURE_LIMIT = 10  # of a person from an address
AXES_RESET_COOL_OFF_ON_FAILURE_DURING_LOCKOUT = False  # who keeps trying cannot keep somebody out for ever
SIGN_IN_FAILURES_PER_USER = 50  # from all addresses
SIGN_IN_FAILURES_PER_ADDRESS = 100  # of all people
AXES_COOLOFF_TIME = 0.25  # hours
AXES_LOCKOUT_CALLABLE = "webapp.interfaces.pages.views.signin.locked_out"
AXES_LOCKOUT_PARAMETERS = [["username", "ip_address"]]
# django-allauth: the steps after the first factor, second factors, passkeys (docs/security.md says what else is ours).
ACCOUNT_ADAPTER = "webapp.identity.signin.adapters.AccountAdapter"
ACCOUNT_FORMS = {"reauthenticate": "webapp.identity.signin.forms.OwnPasswordForm"}
ACCOUNT_LOGIN_METHODS = {"username"}
ACCOUNT_SIGNUP_FIELDS = ["username*"]  # nobody signs up
ACCOUNT_EMAIL_VERIFICATION = "none"
ACCOUNT_LOGIN_TIMEOUT = ACCOUNT_REAUTHENTICATION_TIMEOUT = 5 * 60
ACCOUNT_RATE_LIMITS = MFA_RATE_LIMITS = (
    False  # they count in the cache of one process; django-axes counts in the database
)
MFA_ADAPTER = "webapp.identity.signin.adapters.MfaAdapter"
MFA_FORMS = {
    step: f"webapp.identity.signin.forms.{form}"
    for step, form in {
        "authenticate": "CodeForm",
        "authenticate_webauthn": "SecondPasskeyForm",
        "reauthenticate": "ConfirmCodeForm",
        "reauthenticate_webauthn": "ConfirmPasskeyForm",
        "activate_totp": "EnrolForm",
        "add_webauthn": "NewPasskeyForm",
        "login_webauthn": "PasskeyForm",
    }.items()
}
MFA_SUPPORTED_TYPES = ["totp", "webauthn", "recovery_codes"]
MFA_PASSKEY_LOGIN_ENABLED = MFA_RECOVERY_CODES_SHOW_ONCE = True
MFA_ALLOW_UNVERIFIED_EMAIL = True
MFA_TOTP_ISSUER, MFA_TOTP_TOLERANCE, MFA_RECOVERY_CODE_DIGITS = "Headroom", 1, 16
LOGIN_URL = "sign-in"
LOGIN_REDIRECT_URL = "overview"
LOGOUT_REDIRECT_URL = "sign-in"

LANGUAGE_CODE = "en"
TIME_ZONE = "UTC"
USE_TZ = True
USE_I18N = False

# plotly.js and KaTeX are kept in static/vendor (scripts/vendor.py), htmx comes out of `django-htmx`: no CDN.
STATIC_URL = "/static/"
STATIC_ROOT = HEADROOM_HOME / "static"
STATICFILES_DIRS = [BASE_DIR / "static"]
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "webapp.interfaces.assets.HashedFiles"},
}
FILE_UPLOAD_PERMISSIONS = 0o600  # of collected files, too: what lies in HEADROOM_HOME is for its owner alone
WHITENOISE_USE_FINDERS = True  # as long as nothing is collected
WHITENOISE_KEEP_ONLY_HASHED_FILES = True

CELERY_BROKER_URL = _services.redis_url
# Where requests are counted (`webapp.base.requests`): in Redis, together; without one each process for itself.
_OF_A_PROCESS = {
    "BACKEND": "django.core.cache.backends.locmem.LocMemCache",
    "OPTIONS": {"MAX_ENTRIES": 20_000},
}
CACHES = {
    "default": _OF_A_PROCESS,
    "limits-of-this-process": _OF_A_PROCESS | {"LOCATION": "limits"},
    "limits": {
        "BACKEND": "django.core.cache.backends.redis.RedisCache",
        "LOCATION": _services.redis_url,
        "KEY_PREFIX": "headroom-limits",
        "OPTIONS": {"socket_connect_timeout": 0.2, "socket_timeout": 0.2},
    }
    if _services.redis_url
    else _OF_A_PROCESS | {"LOCATION": "limits"},
}
HEADROOM_URL = _services.web_url
# Hosts (`host` or `host:port`) that hooks, OpenID and imports may reach although they are not on the public internet.
ALLOW_PRIVATE_HOSTS = [
    h.strip().lower() for h in os.environ.get("HEADROOM_ALLOW_PRIVATE_HOSTS", "").split(",") if h.strip()
]
DATA_UPLOAD_MAX_MEMORY_SIZE = 2 * 1024 * 1024  # batches of what is logged: `webapp.base.requests`
# Files of imports (docs/importing.md): at most so many bytes at once; how many days those of imports that did not
# finish are kept; how many imports are read at the same time.
FILE_UPLOAD_HANDLERS = ["webapp.interfaces.imports.uploads.Bounded"]
IMPORT_MAX_BYTES = int(float(os.environ.get("HEADROOM_IMPORT_MAX_BYTES") or 1024**3))
IMPORT_KEEP_DAYS = float(os.environ.get("HEADROOM_IMPORT_KEEP_DAYS") or 14)
# Of what the example project is made, once; "none": there is none.
EXAMPLE_CORPUS = os.environ.get("HEADROOM_EXAMPLE") or str(BASE_DIR / "corpus" / "miniature")
IMPORTS_AT_ONCE = int(os.environ.get("HEADROOM_IMPORTS_AT_ONCE") or 1)

# Files that trainers give away (docs/tracking.md): bytes of one, and of all runs of a project together.
ARTIFACT_MAX_BYTES = int(float(os.environ.get("HEADROOM_ARTIFACT_MAX_BYTES") or 1024**3))
ARTIFACT_PROJECT_BYTES = int(float(os.environ.get("HEADROOM_ARTIFACT_PROJECT_BYTES") or 20 * 1024**3))

# Room that must stay on the disk of HEADROOM_HOME: the greater of the two (docs/operations.md).
MIN_FREE_BYTES = int(float(os.environ.get("HEADROOM_MIN_FREE_BYTES") or 2 * 1024**3))
MIN_FREE_PERCENT = float(os.environ.get("HEADROOM_MIN_FREE_PERCENT") or 1)

# What differs from the alarms' default rules (docs/alarms.md): a YAML or JSON file, or JSON itself.
HEADROOM_ALARMS = os.environ.get("HEADROOM_ALARMS", "")

# Folders whose models a recipe may name by their path, beside HEADROOM_HOME/models and the runs' own.
MODEL_ROOTS = [root.strip() for root in os.environ.get("HEADROOM_MODEL_ROOTS", "").split(",") if root.strip()]

# docs/runs.md: retries after a failure of the infrastructure, unless the run says another number.
RETRIES = int(os.environ.get("HEADROOM_RETRIES") or 3)
# Batches of records that trainers together are asked to keep to, in a second (`webapp.record.runs.selectors`).
BATCHES_PER_SECOND = float(os.environ.get("HEADROOM_BATCHES_PER_SECOND") or 50)
# A tracked run of which nothing was heard for so long is lost until it speaks again.
TRACKED_LOST_MINUTES = float(os.environ.get("HEADROOM_TRACKED_LOST_MINUTES") or 60)
# Whether nodes are added where runs need them: then a run is handed over although the cluster lacks what it needs now.
CLUSTER_GROWS = os.environ.get("HEADROOM_CLUSTER_GROWS") == "1"

# Mail: HEADROOM_EMAIL_URL, or HEADROOM_SMTP_HOST and its siblings (docs/teams.md). Without either, none is sent.
MAIL = mail_settings(os.environ)
EMAIL_CONFIGURED = MAIL.configured
EMAIL_BACKEND, EMAIL_FILE_PATH = MAIL.backend, MAIL.folder
EMAIL_HOST, EMAIL_PORT = MAIL.host, MAIL.port
EMAIL_HOST_USER, EMAIL_HOST_PASSWORD = MAIL.user, MAIL.password
EMAIL_USE_TLS, EMAIL_USE_SSL = MAIL.starttls, MAIL.tls
EMAIL_TIMEOUT = 10  # seconds
DEFAULT_FROM_EMAIL = SERVER_EMAIL = MAIL.sender

# Who may read /metrics (docs/observability.md): the bearer of a token, callers from networks; without either nobody.
METRICS_TOKEN = os.environ.get("HEADROOM_METRICS_TOKEN", "")
METRICS_ALLOW = os.environ.get("HEADROOM_METRICS_ALLOW", "")

# What encrypts the secrets of projects: one key, or several with commas, the newest first (docs/teams.md).
SECRETS_KEY = os.environ.get("HEADROOM_SECRETS_KEY", "")

# How many proxies of ours stand in front, each of which appends to X-Forwarded-For; 0: none, the header is ignored.
TRUSTED_PROXIES = int(
    os.environ.get("HEADROOM_TRUSTED_PROXIES") or ("1" if os.environ.get("HEADROOM_HTTPS") == "1" else "0")
)

X_FRAME_OPTIONS = "DENY"
SECURE_CONTENT_TYPE_NOSNIFF = True

# What a page may load. No inline script and no inline stylesheet: each is a file of ours, and Plotly puts its own
# rules into a stylesheet that base.html gives it. Single style attributes are allowed, because Plotly writes them for
# bold and raised text; our templates have none. `data:` and `blob:` are pictures: a chart that is downloaded as PNG is
# drawn from its SVG first.
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [NONE],
        "script-src": [SELF],
        "style-src": [SELF],
        "style-src-attr": [UNSAFE_INLINE],
        "img-src": [SELF, "data:", "blob:"],
        "font-src": [SELF],
        "connect-src": [SELF],
        "form-action": [SELF],
        "base-uri": [NONE],
        "frame-ancestors": [NONE],
    }
}
# Which sites may put a shared chart into a frame: "*" for any, or origins separated by commas.
EMBED_ANCESTORS = [o for o in os.environ.get("HEADROOM_EMBED_ANCESTORS", "*").split(",") if o] or [NONE]
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_AGE = 14 * 24 * 3600
PASSWORD_RESET_TIMEOUT = 24 * 3600
# Who has no second factor is led to turn it on before anything else.
REQUIRE_TWO_FACTOR = os.environ.get("HEADROOM_REQUIRE_TWO_FACTOR") == "1"
# OpenID Connect (docs/security.md): without an issuer and a client id there is no such way in.
OIDC = openid_settings(os.environ)
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = os.environ.get("HEADROOM_HTTPS") == "1"
if SESSION_COOKIE_SECURE:  # the proxy that ends TLS says so: shared links then start with https
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    SECURE_SSL_REDIRECT = True
    # Trainers and health checks inside the cluster may come without the proxy; the proxy itself need not let them.
    SECURE_REDIRECT_EXEMPT = [r"^api/", r"^healthz", r"^(version|health|metrics)$", r"^artifact_blob/"]
    SECURE_HSTS_SECONDS = int(os.environ.get("HEADROOM_HSTS_SECONDS") or 365 * 24 * 3600)
    SECURE_HSTS_INCLUDE_SUBDOMAINS = True
# A place on the browsers' preload list binds a whole domain for years: its owner's decision, not that of one site.
SILENCED_SYSTEM_CHECKS = ["security.W021"]

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"()": "observability.logs.formatter"}},  # HEADROOM_LOG_FORMAT
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["console"], "level": "INFO"},
    "loggers": {"httpx": {"level": "WARNING"}, "axes": {"level": "WARNING"}, "fido2": {"level": "WARNING"}},
}
