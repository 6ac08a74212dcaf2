"""URLs of the pages. Names are used by templates, redirects and settings (`sign-in`, `runs`)."""

from django.urls import path

from webapp.pages.views import account, compare, launch, leaderboard, overview, recipes, run, runs

urlpatterns = [
    path("", overview.overview, name="overview"),
    path("runs", runs.runs, name="runs"),
    path("runs/new", launch.launch, name="launch"),
    path("runs/new/check", launch.launch_check, name="launch-check"),
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
