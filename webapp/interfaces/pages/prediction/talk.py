"""Comments of a prediction as threads: numbered, some tied to a point of the chart, with what the reader may do."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from webapp.identity.accounts.models import User
from webapp.science.curves.axes import AXES
from webapp.science.predictions.figure import Anchor
from webapp.science.predictions.models import Comment, Prediction


@dataclass
class Thread:
    """A comment and what was said to it."""

    number: int
    root: Comment
    place: str  # of the point that it is about, in words; "" for none
    replies: list[Comment] = field(default_factory=list)

    @property
    def reply_key(self) -> str:
        """Which form of the page a problem belongs to: the one that answers this thread."""
        return f"reply-{self.root.pk}"

    @property
    def resolved(self) -> bool:
        return self.root.resolved_at is not None


def threads_of(prediction: Prediction) -> list[Thread]:
    """In the order in which they were begun. One query."""
    comments = list(prediction.comments.select_related("author", "resolved_by").order_by("created_at", "pk"))
    roots = [comment for comment in comments if comment.parent_id is None]
    found = {
        root.pk: Thread(number, root, place_words(prediction, root))
        for number, root in enumerate(roots, start=1)
    }
    for comment in comments:
        if comment.parent_id in found:
            found[comment.parent_id].replies.append(comment)
    return list(found.values())


def place_words(prediction: Prediction, comment: Comment) -> str:
    """ "0.512 at 4.00 h"."""
    if comment.anchor_x is None or comment.anchor_y is None:
        return ""
    return f"{comment.anchor_y:.3f} at {AXES[prediction.x].short_text(comment.anchor_x)}"


def anchors_of(threads: Sequence[Thread]) -> list[Anchor]:
    """The threads that the chart marks."""
    return [
        Anchor(thread.root.pk, thread.number, thread.root.anchor_x, thread.root.anchor_y, thread.resolved)
        for thread in threads
        if thread.root.anchor_x is not None and thread.root.anchor_y is not None
    ]


def people_of(prediction: Prediction) -> list[str]:
    """Who can be mentioned: everybody in the project, by name."""
    project = prediction.project
    members = User.objects.filter(memberships__project=project)
    owners = User.objects.filter(owned_organisations=project.organisation_id)
    found = (members | owners).filter(is_active=True).distinct()
    return list(found.order_by("username").values_list("username", flat=True))
