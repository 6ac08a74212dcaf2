"""Every page of `webapp.interfaces.pages.urls` by its name, with an address to look at: a new page is added here.

What is read but no page (files, JSON, regions) is named in NOT_PAGES. A test fails for a name in neither.
"""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Things:
    """What the addresses need: a run with a curve, another one, a recipe, a study, a link to a shared chart."""

    run: str
    other_run: str
    recipe: str
    study: str
    share: str
    prediction: str
    decision: str
    report: str
    report_link: str
    source: str  # an import


PAGES: dict[str, Callable[[Things], str]] = {
    "overview": lambda it: "/",
    "connect": lambda it: "/connect",
    "runs": lambda it: "/runs",
    "launch": lambda it: "/runs/new",
    "run": lambda it: f"/runs/{it.run}",
    "run-samples": lambda it: f"/runs/{it.run}/samples",
    "compare": lambda it: f"/compare?run={it.run}&run={it.other_run}",
    "leaderboard": lambda it: "/leaderboard",
    "studies": lambda it: "/studies",
    "study": lambda it: f"/studies/{it.study}",
    "new-study": lambda it: "/studies/new",
    "planner": lambda it: "/planner",
    "predictions": lambda it: "/predictions",
    "prediction": lambda it: f"/predictions/{it.prediction}",
    "new-prediction": lambda it: f"/predictions/new?run={it.run}",
    "calibration": lambda it: "/calibration",
    "forecast-record": lambda it: "/calibration/forecasts",
    "recipes": lambda it: "/recipes",
    "recipe": lambda it: f"/recipes/{it.recipe}",
    "new-revision": lambda it: f"/recipes/{it.recipe}/new",
    "shares": lambda it: "/shares",
    "new-share": lambda it: f"/shares/new?kind=run&run={it.run}",
    "shared": lambda it: f"/s/{it.share}",
    "embed": lambda it: f"/embed/{it.share}",
    "members": lambda it: "/project/members",
    "project-settings": lambda it: "/project/settings",
    "organisation": lambda it: "/organisation",
    "audit": lambda it: "/audit",
    "alerts": lambda it: "/alerts",
    "new-alert-rule": lambda it: "/alerts/rules/new?on=metric",
    "new-alert-channel": lambda it: "/alerts/channels/new?kind=mail",
    "alert-preferences": lambda it: "/alerts/preferences",
    "notices": lambda it: "/notices",
    "automation": lambda it: "/project/automation",
    "status": lambda it: "/status",
    "tokens": lambda it: "/tokens",
    "api-docs": lambda it: "/api/docs",
    "sign-in": lambda it: "/sign-in",
    "decisions": lambda it: "/decisions",
    "reports": lambda it: "/reports",
    "report": lambda it: f"/reports/{it.report}",
    "edit-report": lambda it: f"/reports/{it.report}/edit",
    "report-history": lambda it: f"/reports/{it.report}/history",
    "report-links": lambda it: f"/reports/{it.report}/links",
    "imports": lambda it: "/imports",
    "new-import": lambda it: "/imports/new",
    "import": lambda it: f"/imports/{it.source}",
    "shared-report": lambda it: f"/r/{it.report_link}",
}
# What is read, too, but no page: files, JSON, regions; a link that works once, and what belongs to the sign-in.
NOT_PAGES = {
    "example", "run-figure", "run-panels", "run-timeline", "run-log", "run-log-lines", "run-file", "runs-complete",
    "runs-bulk", "compare-search", "compare-panels", "compare-odds", "compare-crossings", "leaderboard-csv",
    "leaderboard-efficiency", "leaderboard-group", "leaderboard-evidence", "study-state",
    "study-csv", "runs-csv", "runs-json", "run-records-csv", "run-records-jsonl",
    "run-records-parquet", "run-samples-jsonl", "shared-picture", "palette",
    "alive", "predictions-csv", "prediction-proposal", "prediction-figure", "retention-preview", "audit-csv",
    "audit-jsonl", "invitation", "openid-begin", "openid-callback", "set-password",
    "link-identity", "alert-check", "alert-rule", "alert-channel",
    "notices-bell", "notices-unread", "report-block", "report-html", "decision",
}  # fmt: skip
# Steps that ask who it is first, and second names: tests/webapp/identity/signin, tests/browser/test_sign_in.py.
NOT_PAGES |= {
    "account_login", "mfa_authenticate", "mfa_login_webauthn", "mfa_index", "mfa_list_webauthn", "mfa_activate_totp",
    "mfa_deactivate_totp", "mfa_view_recovery_codes", "mfa_generate_recovery_codes", "mfa_add_webauthn",
    "mfa_remove_webauthn", "account_reauthenticate", "mfa_reauthenticate", "mfa_reauthenticate_webauthn",
}  # fmt: skip
PAGES |= {
    "profile": lambda it: "/profile",
    "change-password": lambda it: "/profile/password",
    "forgot-password": lambda it: "/password/forgotten",
}
WITHOUT_ACCOUNT = {"shared", "embed", "sign-in"}
WITHOUT_ACCOUNT |= {"forgot-password"}
WITHOUT_ACCOUNT |= {"shared-report", "api-docs"}
FRAMEABLE = {"embed"}


def make_things(user, make_run) -> Things:
    """Two runs with curves and a link to one of them; through the services."""
    from webapp.reporting.shares.services import create_share
    from webapp.science.studies.planning import StudyRequest
    from webapp.science.studies.services import create_study

    run, other = make_run(30, name="ScaleRL, wide batch"), make_run(24, a=0.5, seed=1, name="GRPO")
    question = {"run": run.pk, "metric": "eval/pass_rate", "cutoff": None, "lo": None, "x": "device_hours"}
    token = create_share(
        user=user, project=run.project, kind="run", title="A curve", question=question | {"scale": "log"},
        days=None,
    )  # fmt: skip
    asked = StudyRequest(
        name="What matters", recipe="tiny-scalerl", changes=("loss=dapo",), seeds=(0,), task="arithmetic",
        model="tiny-arithmetic", budget_hours=16.0,
    )  # fmt: skip
    study = create_study(asked, user=user, project=run.project).study
    prediction = make_prediction(user, run)
    return Things(
        run=run.pk,
        other_run=other.pk,
        recipe="tiny-scalerl",
        study=study.pk,
        share=token,
        prediction=prediction.pk,
        source=make_import(user, run.project).pk,
        **_written(user, run, other),
    )


def make_import(user, project):
    """A table whose columns are still to be named."""
    from django.core.files.uploadedfile import SimpleUploadedFile

    from webapp.interfaces.imports.services import begin_import
    from webapp.interfaces.imports.uploads import asked_of

    table = SimpleUploadedFile("grpo.csv", b"step,eval/pass_rate,gpu_hours\n1,0.2,0.5\n2,0.3,1.0\n")
    return begin_import(user=user, project=project, asked=asked_of("csv", {}), files=[table], may_ask=True)


def make_prediction(user, run, **claim):
    """A claim that the fit itself makes, at twice the compute of the run's newest evaluation."""
    from tests.predicting import predicted

    return predicted(user=user, run=run, **{"reasons": "The bend is behind us."} | claim)


def _written(user, run, other) -> dict[str, str]:
    """A decision, and a published report with a link to it."""
    from webapp.reporting.reports.services import create_link, create_report, publish
    from webapp.science.decisions.services import decide

    decision = decide(run, user=user, kind="switch", to=other.name, reason="It has bent.")
    text = f"## Where it bends\n\n```headroom\nchart: run\nrun: {run.pk}\n```\n"
    report = create_report(user=user, project=run.project, title="Where it tops out", text=text)
    publish(report, user=user, base=1)
    link = create_link(report, user=user, days=7)
    return {"decision": decision.pk, "report": report.pk, "report_link": link}
