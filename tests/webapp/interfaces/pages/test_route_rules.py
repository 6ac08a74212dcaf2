"""Where a request is turned away before its view; what each address needs is walked in tests/webapp/permissions."""

import pytest


@pytest.mark.parametrize(
    ("came_from", "leads_back_to"),
    [
        ("http://testserver/runs/new?recipe=tiny-scalerl#more", "/runs/new%3Frecipe%3Dtiny-scalerl"),
        ("http://testserver", "/"),
        ("http://elsewhere.example/runs", "/"),
        ("", "/"),
    ],
)
def test_a_form_sent_after_the_session_ended_leads_back_to_its_page(client, db, came_from, leads_back_to):
    answer = client.post("/runs/new/check", headers={"Referer": came_from})

    assert answer.url == f"/sign-in?next={leads_back_to}"


@pytest.mark.parametrize("path", ["/project/queue", "/sign-out"])
def test_an_address_for_forms_alone_says_so(ada, path):
    answer = ada.get(path)

    assert answer.status_code == 405 and "POST" in answer.headers["Allow"]
    assert "This address takes what a form" in answer.content.decode()
