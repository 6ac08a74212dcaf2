import base64
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from webapp.identity.signin import codes

# RFC 6238, appendix B: SHA-1, the last six of its eight digits.
RFC_KEY = b"12345678901234567890"


@pytest.mark.parametrize(
    ("now", "code"),
    [
        (59, "287082"),
        (1111111109, "081804"),
        (1111111111, "050471"),
        (1234567890, "005924"),
        (2000000000, "279037"),
        (20000000000, "353130"),
    ],
)
def test_codes_are_those_of_the_standard(now, code):
    assert codes.code_at(RFC_KEY, now) == code
    assert codes.matching_step(RFC_KEY, code, after=-1, now=now) == now // 30


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.binary(min_size=20, max_size=20), st.integers(10**6, 4 * 10**9), st.integers(-5, 5))
def test_one_step_to_either_side_is_taken_and_none_twice(key, now, off):
    step = codes.matching_step(key, codes.code_at(key, now + 30 * off), after=-1, now=now)
    near = [codes.code_at(key, now + 30 * one) for one in (-1, 0, 1)]
    assert (step is not None) == (codes.code_at(key, now + 30 * off) in near)
    if step is not None:
        again = codes.matching_step(key, codes.code_at(key, now + 30 * off), after=step, now=now)
        assert again is None or again > step


@pytest.mark.parametrize("code", ["", "12345", "1234567", "abcdef", "１２３４５６", "-12345", "12345\n"])
def test_what_is_no_code(code):
    assert codes.matching_step(RFC_KEY, code, after=-1, now=59) is None


def test_the_address_for_apps_holds_the_key_and_whose_it_is():
    parts = urlsplit(codes.key_uri(RFC_KEY, "a b@c"))
    query = parse_qs(parts.query)
    assert (parts.scheme, parts.netloc, parts.path) == ("otpauth", "totp", "/Headroom%3Aa%20b%40c")
    assert base64.b32decode(query["secret"][0]) == RFC_KEY and query["issuer"] == ["Headroom"]
    assert codes.normal(codes.key_text(RFC_KEY)) == query["secret"][0].lower()


def test_recovery_codes_are_ten_and_differ():
    fresh = codes.new_recovery_codes()
    assert len(set(fresh)) == 10
    assert all(len(codes.normal(code)) == 16 for code in fresh)


def test_a_picture_is_an_svg_in_an_address():
    assert codes.picture("otpauth://totp/x?secret=A").startswith("data:image/svg+xml")
