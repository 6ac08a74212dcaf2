"""People, projects and API tokens."""

from django.contrib.auth.models import AbstractUser
from django.db import models


class User(AbstractUser):
    """A person who signs in."""


class Project(models.Model):
    """What recipes and runs belong to; its members see and change them."""

    slug = models.SlugField(unique=True)
    name = models.CharField(max_length=100)
    members = models.ManyToManyField(User, related_name="projects")
    created_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return self.name


class Scope(models.TextChoices):
    """What a token may do; each includes the ones before it."""

    READ = "read"
    WRITE = "write"
    LAUNCH = "launch"


class ApiToken(models.Model):
    """A bearer token, stored as its SHA-256 only. With `run` set it may write that one run's records, nothing else."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="tokens", null=True)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="tokens")
    run = models.ForeignKey("runs.Run", on_delete=models.CASCADE, related_name="tokens", null=True)
    scope = models.CharField(max_length=10, choices=Scope.choices)
    digest = models.CharField(max_length=64, unique=True)
    created_at = models.DateTimeField(auto_now_add=True)
    last_used_at = models.DateTimeField(null=True)
    revoked_at = models.DateTimeField(null=True)
