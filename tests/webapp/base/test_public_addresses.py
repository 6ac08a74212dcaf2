from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webapp.base.outbound import is_public, literal_address, looks_numeric

V4 = st.integers(0, 2**32 - 1)


@pytest.mark.parametrize(
    "address",
    [
        "0.0.0.0",
        "10.1.2.3",
        "100.64.0.1",
        "100.100.100.200",
        "127.0.0.1",
        "127.255.255.254",
        "168.63.129.16",
        "169.254.169.254",
        "172.16.0.1",
        "172.31.255.255",
        "192.0.0.8",
        "192.0.2.1",
        "192.168.1.1",
        "198.18.0.1",
        "198.51.100.7",
        "203.0.113.7",
        "224.0.0.1",
        "239.255.255.250",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::7f00:1",
        "::ffff:127.0.0.1",
        "::ffff:8.8.8.8",
        "64:ff9b::7f00:1",
        "64:ff9b:1::1",
        "100::1",
        "2001::1",
        "2001:0:4136:e378:8000:63bf:3fff:fdd2",
        "2001:db8::1",
        "2002:7f00:1::",
        "2606:4700::5efe:7f00:1",
        "2606:4700::200:5efe:a00:1",
        "3fff::1",
        "fc00::1",
        "fd00:ec2::254",
        "fe80::1",
        "fe80::1%eth0",
        "2606:4700::1%eth0",
        "fec0::1",
        "ff02::1",
        "",
        "example.com",
        "127.1",
        "0177.0.0.1",
        "1.2.3.4 ",
    ],
)
def test_what_is_not_public(address):
    assert not is_public(address)


@pytest.mark.parametrize(
    "address",
    ["1.1.1.1", "8.8.8.8", "172.15.255.255", "172.32.0.1", "100.63.0.1", "100.128.0.1", "2606:4700::1111"],
)
def test_what_is_public(address):
    assert is_public(address)


@given(V4)
def test_nothing_is_public_that_python_calls_private(number):
    """Python's own table is a second, independent one: ours may be stricter, never more open."""
    address = IPv4Address(number)
    if address.is_private or address.is_multicast or address.is_reserved or not address.is_global:
        assert not is_public(str(address))


@given(st.integers(0, 2**128 - 1) | st.integers(0x2000 << 112, (0x4000 << 112) - 1))
def test_nor_of_the_long_addresses(number):
    address = IPv6Address(number)
    if address.is_private or address.is_multicast or address.is_reserved or not address.is_global:
        assert not is_public(str(address))


@given(
    V4,
    st.sampled_from(
        [
            lambda n: 0xFFFF << 32 | n,  # mapped
            lambda n: n,  # compatible
            lambda n: 0x0064FF9B << 96 | n,  # NAT64
            lambda n: 0x2002 << 112 | n << 80,  # 6to4
            lambda n: 0x20010000 << 96 | (n ^ 0xFFFFFFFF),  # Teredo
            lambda n: 0x26064700 << 96 | 0x5EFE << 32 | n,  # ISATAP
        ]
    ),
)
def test_no_long_address_that_carries_a_short_one(number, carried):
    assert not is_public(str(IPv6Address(carried(number))))


@given(V4)
def test_other_spellings_of_an_address_are_seen(number):
    """What a system's resolver would read as an address, however it is written."""
    a, rest = divmod(number, 2**24)
    b, low = divmod(rest, 2**16)
    for host in (
        str(number),
        hex(number),
        f"0{number:o}",
        f"{a}.{rest}",
        f"{a}.{b}.{low}",
        f"0x{a:x}.{b}.0.1",
    ):
        assert looks_numeric(host)
        assert literal_address(host) is None or ip_address(host)
    assert literal_address(str(IPv4Address(number))) == IPv4Address(number)


@pytest.mark.parametrize("host", ["example.com", "0x7f.example", "1.example", "face", "a1"])
def test_names_are_not_addresses(host):
    assert not looks_numeric(host)
    assert literal_address(host) is None
