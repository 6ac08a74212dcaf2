"""URLs of the pages. Names are used by templates, redirects and settings (`sign-in`, `runs`)."""

from django.urls import path
from django.views.generic import RedirectView

from webapp.pages.views import account, compare, leaderboard, new_study, planner, recipes, run, runs, studies

urlpatterns = [
    path("", RedirectView.as_view(pattern_name="runs"), name="overview"),
    path("runs", runs.runs, name="runs"),
    path("runs/new", runs.launch, name="launch"),
    path("runs/new/hints", runs.launch_hints, name="launch-hints"),
    path("runs/<slug:run_id>", run.page, name="run"),
    path("runs/<slug:run_id>/figure", run.figure, name="run-figure"),
    path("runs/<slug:run_id>/stop", run.stop, name="run-stop"),
    path("runs/<slug:run_id>/resume", run.resume, name="run-resume"),
    path("compare", compare.compare, name="compare"),
    path("leaderboard", leaderboard.leaderboard, name="leaderboard"),
    path("leaderboard.csv", leaderboard.leaderboard_csv, name="leaderboard-csv"),
    path("studies", studies.studies, name="studies"),
    path("studies/new", new_study.new_study, name="new-study"),
    path("studies/new/preview", new_study.preview, name="study-preview"),
    path("studies/<slug:study_id>", studies.study, name="study"),
    path("studies/<slug:study_id>/state", studies.state, name="study-state"),
    path("studies/<slug:study_id>/results.csv", studies.results_csv, name="study-csv"),
    path("studies/<slug:study_id>/runs", studies.add_run, name="study-add-run"),
    path("studies/<slug:study_id>/runs/<slug:run_id>/remove", studies.remove_run, name="study-remove-run"),
    path("studies/<slug:study_id>/seeds", studies.launch_seeds, name="study-seeds"),
    path("studies/<slug:study_id>/stop", studies.stop, name="study-stop"),
    path("planner", planner.planner, name="planner"),
    path("recipes", recipes.recipes, name="recipes"),
    path("recipes/<slug:slug>", recipes.recipe, name="recipe"),
    path("recipes/<slug:slug>/new", recipes.new_revision, name="new-revision"),
    path("recipes/<slug:slug>/new/hints", recipes.revision_hints, name="revision-hints"),
    path("tokens", account.tokens, name="tokens"),
    path("tokens/<int:token_id>/revoke", account.revoke_token, name="revoke-token"),
    path("project", account.choose_project, name="choose-project"),
    path("sign-in", account.SignIn.as_view(), name="sign-in"),
    path("sign-out", account.SignOut.as_view(), name="sign-out"),
]
