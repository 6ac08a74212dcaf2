"""URLs of the pages. Names are used by templates, redirects and settings (`sign-in`, `runs`)."""

from django.urls import path
from django.views.generic import RedirectView

from webapp.pages.views import account, compare, leaderboard, recipes, run, runs, shares, shell

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
    path("compare/search", compare.compare_search, name="compare-search"),
    path("compare/odds", compare.compare_odds, name="compare-odds"),
    path("compare/crossings", compare.compare_crossings, name="compare-crossings"),
    path("leaderboard", leaderboard.leaderboard, name="leaderboard"),
    path("leaderboard.csv", leaderboard.leaderboard_csv, name="leaderboard-csv"),
    path("leaderboard/efficiency", leaderboard.leaderboard_efficiency, name="leaderboard-efficiency"),
    path("recipes", recipes.recipes, name="recipes"),
    path("recipes/<slug:slug>", recipes.recipe, name="recipe"),
    path("recipes/<slug:slug>/new", recipes.new_revision, name="new-revision"),
    path("recipes/<slug:slug>/new/hints", recipes.revision_hints, name="revision-hints"),
    path("shares", shares.shares, name="shares"),
    path("shares/new", shares.new_share, name="new-share"),
    path("shares/<int:share_id>/revoke", shares.revoke, name="revoke-share"),
    path("s/<slug:token>", shares.shared, name="shared"),
    path("s/<slug:token>.png", shares.picture, name="shared-picture"),
    path("embed/<slug:token>", shares.embed, name="embed"),
    path("palette", shell.palette, name="palette"),
    path("alive", shell.alive, name="alive"),
    path("docs/components", shell.component_page, name="components"),
    path("tokens", account.tokens, name="tokens"),
    path("tokens/<int:token_id>/revoke", account.revoke_token, name="revoke-token"),
    path("project", account.choose_project, name="choose-project"),
    path("sign-in", account.SignIn.as_view(), name="sign-in"),
    path("sign-out", account.SignOut.as_view(), name="sign-out"),
]
