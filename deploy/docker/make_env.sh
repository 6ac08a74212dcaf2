#!/usr/bin/env bash
# Prints an .env for docker-compose.yml with secrets drawn anew:   deploy/docker/make_env.sh headroom.example.com > .env
# An existing .env is never touched: whoever loses HEADROOM_SECRETS_KEY loses the stored secrets of all projects.
set -euo pipefail
host=${1:?usage: make_env.sh HOST > .env}

draw() {
    head -c "$1" /dev/urandom | od -An -v -tx1 | tr -d ' \n'
}

cat <<END
# The name under which browsers reach the server.
HEADROOM_HOST=$host
# internal: a certificate of Caddy's own authority. A mail address: one of Let's Encrypt, where the name is public.
HEADROOM_TLS=internal
POSTGRES_PASSWORD=$(draw 24)
REDIS_PASSWORD=$(draw 24)
RAY_AUTH_TOKEN=$(draw 32)
HEADROOM_SECRET_KEY=$(draw 48)
HEADROOM_SECRETS_KEY=$(draw 32)
# docs/security.md and docs/teams.md
HEADROOM_REQUIRE_TWO_FACTOR=0
HEADROOM_EMAIL_URL=
HEADROOM_EMAIL_FROM=
# docs/observability.md. The token opens /metrics; the rest is off until it names a collector or a project of Sentry.
HEADROOM_LOG_FORMAT=json
HEADROOM_METRICS_TOKEN=$(draw 24)
HEADROOM_METRICS_ALLOW=
OTEL_EXPORTER_OTLP_ENDPOINT=
OTEL_EXPORTER_OTLP_HEADERS=
OTEL_TRACES_SAMPLER=parentbased_always_on
OTEL_TRACES_SAMPLER_ARG=1
SENTRY_DSN=
SENTRY_ENVIRONMENT=production
# docs/reliability.md: where checkpoints are copied to, e.g. s3://BUCKET/PREFIX.
HEADROOM_CHECKPOINTS_URL=
HEADROOM_CHECKPOINTS_ENDPOINT=
AWS_ACCESS_KEY_ID=
AWS_SECRET_ACCESS_KEY=
# docs/deploy.md
HF_ENDPOINT=https://huggingface.co
RAY_SHM_SIZE=8gb
# With GPUs: headroom-ray-gpu:0.1.0 and ray-gpu. The driver of a run is on the head node, and looks there for vLLM.
RAY_HEAD_IMAGE=headroom-ray:0.1.0
RAY_HEAD_TARGET=ray
END
