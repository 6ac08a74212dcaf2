"""Who somebody of another installation is here.

The same person: who has the same user name and no other e-mail address, else the only account with the same address.
Everybody else whose name stands under something keeps it as an account that cannot sign in.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from django.db.models import QuerySet

from webapp.identity.accounts.models import User
from webapp.operation.moving.archive import MovingError

LONGEST = 150  # characters of a user name


@dataclass(frozen=True)
class Person:
    """As the file names them."""

    id: int
    username: str
    email: str
    first_name: str
    last_name: str


@dataclass(frozen=True)
class Match:
    """`here` is None for who is not here. made: their name is kept by a new account that cannot sign in."""

    person: Person
    here: User | None
    made: bool = False


def match(people: Iterable[Person], named: Mapping[str, str]) -> list[Match]:
    """`named`: user name there -> user name here, as the operator says it. Raises MovingError for a name that is not in
    the file, or has no account here."""
    found = list(people)
    if unknown := sorted(named.keys() - {person.username for person in found}):
        raise MovingError(f"--person {unknown[0]}: nobody in the file has this user name.")
    here = {person.id: _named(person, named) for person in found}
    for of in (_by_name, _by_address):  # nobody here is two people there
        for person in found:
            if here[person.id] is None:
                taken = {user.pk for user in here.values() if user is not None}
                here[person.id] = of(person, User.objects.exclude(pk__in=taken))
    return [Match(person, here[person.id]) for person in found]


def keep_name(person: Person, project: str) -> User:
    """A new account that cannot sign in: under the same user name, or under "NAME-of-PROJECT" where that is taken."""
    taken = set(User.objects.filter(username__startswith=person.username).values_list("username", flat=True))
    names = [person.username, *(f"{person.username}-of-{project}{i}" for i in ("", *range(2, 1000)))]
    username = next(name for name in names if name not in taken)
    if len(username) > LONGEST:
        raise MovingError(
            f"The user name {person.username} is taken here and too long for another: use --person."
        )
    user = User(
        username=username, email=person.email, first_name=person.first_name, last_name=person.last_name,
        is_active=False,
    )  # fmt: skip
    user.set_unusable_password()
    user.save()
    return user


def _named(person: Person, named: Mapping[str, str]) -> User | None:
    if person.username not in named:
        return None
    user = User.objects.filter(username=named[person.username]).first()
    if user is None:
        raise MovingError(f"--person {person.username}: there is no account {named[person.username]} here.")
    return user


def _by_name(person: Person, others: QuerySet[User]) -> User | None:
    user = others.filter(username=person.username).first()
    if user is None or (user.email and person.email and user.email.lower() != person.email.lower()):
        return None
    return user


def _by_address(person: Person, others: QuerySet[User]) -> User | None:
    same = list(others.filter(email__iexact=person.email)[:2]) if person.email else []
    return same[0] if len(same) == 1 else None
