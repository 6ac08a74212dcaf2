"""URLs of the pages. Names are used by templates, redirects and settings (`sign-in`, `runs`)."""

from django.urls import path
from django.views.generic import RedirectView

from webapp.pages.views import account, compare, leaderboard, recipes, run, run_list, runs

urlpatterns = [
    path("", RedirectView.as_view(pattern_name="runs"), name="overview"),
    path("runs", runs.runs, name="runs"),
    path("runs/new", runs.launch, name="launch"),
    path("runs/complete", run_list.complete, name="runs-complete"),
    path("runs/bulk", run_list.act, name="runs-bulk"),
    path("runs/views", run_list.save_view, name="runs-save-view"),
    path("runs/views/<int:view_id>", run_list.change_view, name="runs-change-view"),
    path("runs/new/hints", runs.launch_hints, name="launch-hints"),
    path("runs/<slug:run_id>", run.page, name="run"),
    path("runs/<slug:run_id>/figure", run.figure, name="run-figure"),
    path("runs/<slug:run_id>/stop", run.stop, name="run-stop"),
    path("runs/<slug:run_id>/resume", run.resume, name="run-resume"),
    path("compare", compare.compare, name="compare"),
    path("leaderboard", leaderboard.leaderboard, name="leaderboard"),
    path("leaderboard.csv", leaderboard.leaderboard_csv, name="leaderboard-csv"),
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
