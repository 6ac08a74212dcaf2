"""Which IP addresses lie on the public internet: the ones the server may call for somebody.

The networks are those of IANA's special-purpose registries (RFC 6890 and what came after), written out, because
`ipaddress.is_global` answers differently from one Python version to the next.
"""

import re
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

Address = IPv4Address | IPv6Address

NOT_PUBLIC_V4 = [
    IPv4Network(network)
    for network in (
        "0.0.0.0/8",  # this network
        "10.0.0.0/8",
        "100.64.0.0/10",  # carrier-grade NAT
        "127.0.0.0/8",
        "168.63.129.16/32",  # Azure's host, reachable from inside only
        "169.254.0.0/16",  # link-local: the clouds' metadata services
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.88.99.0/24",  # 6to4 relays
        "192.168.0.0/16",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",
        "240.0.0.0/4",
    )
]
# Everything public lies in 2000::/3. Mapped (::ffff:0:0/96), compatible (::/96), NAT64 (64:ff9b::/96, 64:ff9b:1::/48),
# unique-local, link-local, site-local and multicast addresses lie outside of it.
PUBLIC_V6 = IPv6Network("2000::/3")
NOT_PUBLIC_V6 = [
    IPv6Network(network)
    for network in (
        "2001::/23",  # protocol assignments, Teredo among them
        "2001:db8::/32",
        "2002::/16",  # 6to4: an IPv4 address inside
        "3fff::/20",  # documentation
    )
]


def is_public(address: str) -> bool:
    """Whether a resolved address is one of the public internet. Anything that is not an address is not."""
    try:
        parsed = IPv6Address(address) if ":" in address else IPv4Address(address)
    except ValueError:
        return False
    if isinstance(parsed, IPv4Address):
        return not any(parsed in network for network in NOT_PUBLIC_V4)
    if parsed.scope_id or parsed not in PUBLIC_V6 or any(parsed in network for network in NOT_PUBLIC_V6):
        return False
    return not _is_embedded(parsed)


def _is_embedded(address: IPv6Address) -> bool:
    """ISATAP (RFC 5214): an interface identifier `[02]00:5efe` followed by an IPv4 address."""
    return (int(address) >> 32) & 0xFDFFFFFF == 0x00005EFE


def literal_address(host: str) -> Address | None:
    """The address that a host spells out in the one accepted way, without brackets; None for anything else."""
    try:
        return IPv6Address(host) if ":" in host else IPv4Address(host)
    except ValueError:
        return None


def looks_numeric(host: str) -> bool:
    """Whether a host would be read as an IPv4 address by a system's resolver (`127.1`, `0x7f000001`, `017700000001`):
    its last label is a number, as the URL standard puts it."""
    last = host.rstrip(".").rpartition(".")[2]
    return re.fullmatch(r"[0-9]+|0x[0-9a-f]*", last, re.IGNORECASE) is not None
