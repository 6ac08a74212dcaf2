"""The page that says how good forecasts were."""

import pytest
from django.test import Client

from tests.members import member
from tests.webapp.science.curves.record.conftest import judged  # noqa: F401 (fixture)
from tests.webapp.science.predictions.conftest import project, revision  # noqa: F401 (fixtures)
from webapp.identity.accounts.models import Role
from webapp.science.curves.models import ForecastOutcome
from webapp.science.curves.record.recalibrating import record_of

pytestmark = pytest.mark.django_db
PAGE = "/calibration/forecasts"


def client_of(project, role):  # noqa: F811
    client = Client()
    client.force_login(member(f"{role}", project=project, role=role))
    return client


@pytest.fixture
def ada(project):  # noqa: F811
    return client_of(project, Role.VIEWER)


def test_without_a_judged_run_it_says_what_to_wait_for(ada):
    page = ada.get(PAGE).content.decode()

    assert "No forecast is judged yet" in page and "Nothing judged yet" in page
    assert "From 20 judged runs on, intervals are recalibrated by this record; there are 0 yet." in page


def test_the_answer_stands_in_a_sentence_and_the_tables(ada, judged):  # noqa: F811
    judged(0.5)
    judged(2.0)

    page = ada.get(PAGE).content.decode()

    assert "Of 8 forecasts of 2 runs, the 90 % interval held what came in 50 %" in page
    assert "They erred by 0.044, against" in page and "by repeating the last value" in page
    assert "25 % of the compute" in page and "Last value" in page
    assert 'id="calibration-chart"' in page
    assert "All were made once the run had ended" in page


def test_what_cannot_be_judged_is_counted_with_its_reason(ada, judged):  # noqa: F811
    run = judged(1.0)
    ForecastOutcome.objects.filter(run=run).update(why="it has 3 evaluations, too few to judge a forecast by")

    assert (
        "1 run left out: it has 3 evaluations, too few to judge a forecast by."
        in ada.get(PAGE).content.decode()
    )


def test_after_twenty_runs_it_says_how_much_wider_intervals_are(ada, judged):  # noqa: F811
    for _ in range(20):
        judged(1.4)

    page = ada.get(PAGE).content.decode()

    assert "those of 90 % are 1.40 times as wide" in page
    assert "Forecast, recalibrated" in page


def test_a_choice_narrows_the_tables(ada, judged):  # noqa: F811
    judged(0.5, task="math")
    judged(2.0, task="code")

    page = ada.get(PAGE, {"task": "code"}).content.decode()

    assert "Of 4 forecasts of 1 run" in page and "<option selected>code</option>" in page


def test_an_admin_switches_recalibration_off_and_a_reader_does_not(project, judged, ada):  # noqa: F811
    for _ in range(20):
        judged(1.4)
    admin = client_of(project, Role.ADMIN)
    assert "Switch recalibration off" in admin.get(PAGE).content.decode()
    assert "Switch recalibration" not in ada.get(PAGE).content.decode()

    answer = admin.post(f"{PAGE}/recalibration", {"on": "0"}, follow=True).content.decode()

    assert "Intervals are shown as they are forecast." in answer
    assert "Recalibration is switched off; it would make 90 % intervals 1.40 times as wide." in answer
    assert ada.post(f"{PAGE}/recalibration", {"on": "1"}).status_code == 403
    assert record_of(project).widening(0.9).factor == 1.0


def test_the_number_of_queries_does_not_grow_with_the_runs(ada, judged, django_assert_max_num_queries):  # noqa: F811
    for _ in range(3):
        judged(1.0)
    ada.get(PAGE)

    with django_assert_max_num_queries(16):
        ada.get(PAGE)
