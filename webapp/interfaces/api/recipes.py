"""/api/v1/recipes"""

from typing import Any

from django.http import HttpRequest
from ninja import Query, Router, Status

from webapp.interfaces.api import schemas
from webapp.interfaces.api.auth import LAUNCH, READ, project_of, user_of
from webapp.interfaces.api.openapi import answers
from webapp.interfaces.api.paging import PageQuery, page, page_of
from webapp.interfaces.api.payloads import recipe_payload, revision_payload
from webapp.record.recipes import selectors, services

router = Router(tags=["recipes"])


@router.get("", auth=READ, response=page_of(schemas.RecipeOut), summary="List recipes")
def list_recipes(request: HttpRequest, query: Query[PageQuery]) -> dict[str, Any]:
    """By slug, each with its newest revision and the number of its runs."""
    recipes = selectors.recipes_of(project_of(request))
    return page(recipes, query, order=["slug"], payload=recipe_payload)


@router.post(
    "", auth=LAUNCH, response={201: schemas.RecipeOut}, summary="Create a recipe", openapi_extra=answers(409)
)
def create_recipe(request: HttpRequest, body: schemas.RecipeBody) -> Status:
    """With its first revision, whose configuration must be complete. 409 where the slug is taken."""
    project = project_of(request)
    recipe = services.create_recipe(
        project=project,
        slug=body.slug,
        name=body.name,
        config=body.config,
        description=body.description,
        message=body.message,
        user=user_of(request),
    )
    return Status(201, recipe_payload(selectors.recipe_by_slug(project, recipe.slug)))


@router.get("/{slug}", auth=READ, response=schemas.RecipeOut, summary="One recipe")
def get_recipe(request: HttpRequest, slug: str) -> dict[str, Any]:
    """Its newest revision and the number of its runs; its revisions have the configurations."""
    return recipe_payload(selectors.recipe_by_slug(project_of(request), slug))


@router.get(
    "/{slug}/revisions", auth=READ, response=page_of(schemas.RevisionOut), summary="A recipe's revisions"
)
def list_revisions(request: HttpRequest, slug: str, query: Query[PageQuery]) -> dict[str, Any]:
    """Newest first, each with its whole configuration. A revision never changes."""
    revisions = selectors.revisions_of(selectors.recipe_by_slug(project_of(request), slug))
    payload = lambda revision: revision_payload(revision, slug)
    return page(revisions, query, order=["-number"], payload=payload)


@router.post(
    "/{slug}/revisions",
    auth=LAUNCH,
    response={200: schemas.RevisionAnswer, 201: schemas.RevisionAnswer},
    summary="Add a revision",
    description="200 with the revision that already says the same, where there is one.",
)
def add_revision(request: HttpRequest, slug: str, body: schemas.RevisionBody) -> Status:
    recipe = selectors.recipe_by_slug(project_of(request), slug)
    revision, created = services.add_revision(
        recipe=recipe, config=body.config, message=body.message, user=user_of(request)
    )
    hints = [vars(hint) for hint in selectors.hints_for(revision.config)]
    return Status(201 if created else 200, revision_payload(revision, slug) | {"hints": hints})
