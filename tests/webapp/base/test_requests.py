"""What of a request can be stored."""

from django.http import QueryDict

from webapp.base.requests import without_nul


def test_nul_characters_are_left_out_of_names_and_values():
    query = without_nul(QueryDict("a%00=1%002&a=3&b=%00&c=d"))

    assert dict(query.lists()) == {"a": ["12", "3"], "b": [""], "c": ["d"]}


def test_a_query_without_them_stays_as_it_is():
    query = QueryDict("a=1&a=2&b=")

    assert without_nul(query) is query
