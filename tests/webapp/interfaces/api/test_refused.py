"""What a client tells of records that are not stored, and that the run's page says so."""

import pytest


def test_it_is_counted_in_the_detail_and_on_the_page(writer, tracked, user, client):
    body = {
        "attempt": 1,
        "refused_records": 2,
        "refused_values": 3,
        "reason": "records.0.step <b>is</b> no step",
    }
    assert writer.post(f"runs/{tracked.pk}/refused", body).status_code == 200

    detail = writer.get(f"runs/{tracked.pk}").json()
    client.force_login(user)
    page = client.get(f"/runs/{tracked.pk}").content.decode()

    assert detail["refused"] == {"records": 2, "values": 3, "reason": body["reason"]}
    assert "2 records and 3 values that its trainer logged are not stored" in page
    assert "records.0.step &lt;b&gt;is&lt;/b&gt; no step" in page


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"refused_records": -1}, "refused_records"),
        ({"refused_values": "1"}, "refused_values"),
        ({"refused_values": None}, "refused_values"),
        ({"attempt": 40_000}, "attempt"),
        ({"reason": "x" * 1001}, "reason"),
        ({"reason": "a\0b"}, None),
        ({"refused": 1}, "refused"),
    ],
)
def test_a_wrong_field_is_named(writer, tracked, changes, field):
    body = {"attempt": 1, "refused_records": 1, "refused_values": 0} | changes
    answer = writer.post(f"runs/{tracked.pk}/refused", body)

    assert answer.status_code in (400, 422)
    assert field is None or answer.json()["error"]["field"] == field
    assert writer.get(f"runs/{tracked.pk}").json()["refused"]["records"] == 0
