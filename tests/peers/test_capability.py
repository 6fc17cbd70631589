"""Capabilities: granted by a bank, narrowed by anybody, widened by nobody."""

from __future__ import annotations

import pytest
from biscuit_auth import Algorithm, Biscuit, BiscuitBuilder, BlockBuilder, PrivateKey, PublicKey
from hypothesis import given, settings, strategies as st
from tests.requirement import requirement

from reasonbank.peers import capability
from reasonbank.peers.capability import Denied, Operation, grant, narrowed, read, revocation_ids
from reasonbank.peers.identity import Identity
from reasonbank.peers.wire import Token

HOME = Identity.of("home")
OTHER = Identity.of("other")
NOW = 1_000_000
CHANNELS = ["team:acme/build", "org:acme", 'project:/a "b"\n\\;', "project:ü"]


def granted(**less):
    return grant(
        HOME,
        **{
            "channels": CHANNELS,
            "operations": list(Operation),
            "spend": 5_000_000,
            "expires": NOW + 100,
            **less,
        },
    )


@requirement("BUS-3")
def test_a_capability_says_what_may_be_done_where_for_how_much_and_until_when():
    left = read(granted(operations=[Operation.READ]), HOME.key, NOW)
    assert left.channels == set(CHANNELS)
    assert left.operations == {Operation.READ}
    assert (left.spend, left.expires) == (5_000_000, NOW + 100)


@requirement("BUS-3")
def test_who_holds_a_capability_can_hand_on_less_of_it_without_asking_anybody():
    token = narrowed(granted(), channels=["org:acme", "org:other"], spend=10)
    token = narrowed(token, operations=[Operation.READ], expires=NOW + 5, spend=99)
    left = read(token, HOME.key, NOW)
    assert left.channels == {"org:acme"}
    assert left.operations == {Operation.READ}
    assert (left.spend, left.expires) == (10, NOW + 5)


narrowings = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "channels": st.lists(st.sampled_from([*CHANNELS, "org:other"])),
            "operations": st.lists(st.sampled_from(Operation)),
            "spend": st.integers(0, 9_000_000),
            "expires": st.integers(NOW, NOW + 200),
        },
    ),
    max_size=5,
)


@requirement("BUS-3")
@settings(deadline=None)
@given(narrowings, st.randoms(use_true_random=False))
def test_narrowing_never_widens_in_any_order(steps, rng):
    token = granted()
    before = read(token, HOME.key, NOW)
    for step in steps:
        token = narrowed(token, **step)
        after = read(token, HOME.key, NOW)
        assert after.channels <= before.channels and after.operations <= before.operations
        assert after.spend <= before.spend and after.expires <= before.expires
        assert after.channels <= set(step.get("channels", CHANNELS))
        assert after.operations <= set(step.get("operations", Operation))
        assert after.spend <= step.get("spend", before.spend)
        assert after.expires <= step.get("expires", before.expires)
        before = after
    shuffled = granted()
    for step in rng.sample(steps, len(steps)):
        shuffled = narrowed(shuffled, **step)
    same = read(shuffled, HOME.key, NOW)
    assert (same.channels, same.operations) == (before.channels, before.operations)
    assert (same.spend, same.expires) == (before.spend, before.expires)


def appended(token: bytes, source: str) -> bytes:
    """A block that ``narrowed`` would not make; whoever holds a token can add any."""
    opened = Biscuit.from_bytes(token, PublicKey.from_bytes(HOME.key, Algorithm.Ed25519))
    return bytes(opened.append(BlockBuilder(source)).to_bytes())


WRITE = Operation.WRITE.encode().hex()
STRANGE = "check if channel($x), [hex:{}].contains($x)".format(b"org:other".hex())


@pytest.mark.parametrize(
    "source",
    [
        f"operation(hex:{WRITE})",
        f"check if operation($x), [hex:{WRITE}].contains($x)",
        STRANGE,
        "check if spend($x), $x <= 5000001",
        f"check if time($x), $x <= {NOW + 101}",
        "spend(9000000)",
        "expires(9000000)",
        "check if true",
        "operation($x) <- channel($x)",
        'check if operation($x), ["write"].contains($x)',
        'x("y;\ncheck if spend($x), $x <= 3")',
    ],
)
@requirement("BUS-3")
def test_a_widened_capability_is_refused(source):
    token = narrowed(granted(), operations=[Operation.READ])
    assert read(token, HOME.key, NOW).operations == {Operation.READ}
    with pytest.raises(Denied, match="does not narrow it") as refused:
        read(appended(token, source), HOME.key, NOW)
    assert refused.value.code == "widened"


@requirement("BUS-3")
def test_a_forged_capability_is_refused():
    token = granted()
    forged = grant(OTHER, channels=["org:acme"], operations=[], spend=0, expires=NOW)
    as_if = BiscuitBuilder("bank({key}); spend(1); expires(2000000)", {"key": HOME.key})
    signed_by_another = as_if.build(PrivateKey.from_bytes(OTHER.seed, Algorithm.Ed25519))
    for wrong, code in (
        (forged, "foreign"),
        (bytes(signed_by_another.to_bytes()), "forged"),
        (token[:-1], "forged"),
        (token + b"x", "forged"),
        (b"", "forged"),
        (b"not a token", "forged"),
        (bytes(20_000), "forged"),
    ):
        with pytest.raises(Denied) as refused:
            read(wrong, HOME.key, NOW)
        assert refused.value.code == code


@settings(deadline=None)
@given(st.data())
def test_no_changed_byte_changes_what_a_capability_grants_or_how_it_is_revoked(data):
    """A few bytes of the envelope say what goes without saying; a token that differs there is
    the same, so what is revoked is its ids and never its bytes."""
    token = narrowed(granted(), spend=3)
    changed = bytearray(token)
    changed[data.draw(st.integers(0, len(token) - 1))] ^= data.draw(st.integers(1, 255))
    try:
        left = read(bytes(changed), HOME.key, NOW)
    except Denied:
        return
    assert left == read(token, HOME.key, NOW)


def test_every_altered_byte_is_refused_or_means_the_same():
    """Where the library failed in its own way, once: a flipped byte in the first block."""
    token = narrowed(granted(), spend=3)
    whole = read(token, HOME.key, NOW)
    refused = 0
    for place in range(len(token)):
        changed = bytearray(token)
        changed[place] ^= 1
        try:
            assert read(bytes(changed), HOME.key, NOW) == whole
        except Denied:
            refused += 1
    assert refused > len(token) - 10


@settings(deadline=None)
@given(st.binary(max_size=300))
def test_what_is_no_capability_is_refused(said):
    for use in (lambda: read(said, HOME.key, NOW), lambda: narrowed(said, spend=1)):
        with pytest.raises(Denied):
            use()


def test_the_blocks_of_a_capability_cannot_be_taken_off():
    """The last block's key signs for those before: without it there is nothing to sign with."""
    whole = granted()
    less = narrowed(whole, spend=1)
    assert read(less, HOME.key, NOW).spend == 1
    for cut in range(1, len(less)):
        with pytest.raises(Denied):
            read(less[:cut], HOME.key, NOW)


@requirement("BUS-3")
def test_an_expired_capability_is_refused_also_when_it_was_seen_before():
    token = narrowed(granted(), expires=NOW + 5)
    assert read(token, HOME.key, NOW + 5).expires == NOW + 5
    with pytest.raises(Denied, match="has expired") as refused:
        read(token, HOME.key, NOW + 6)
    assert refused.value.code == "expired"


def test_a_capability_that_was_verified_is_not_verified_again(monkeypatch):
    token = granted(spend=17)
    first = read(token, HOME.key, NOW)
    monkeypatch.setattr(capability, "_opened", None)
    assert read(token, HOME.key, NOW) is first


@requirement("BUS-3")
def test_to_revoke_a_capability_is_to_revoke_all_that_was_made_from_it():
    token = granted()
    one, other = narrowed(token, spend=1), narrowed(token, spend=2)
    (of_all,) = revocation_ids(token)
    assert revocation_ids(one)[0] == of_all == revocation_ids(other)[0]
    assert revocation_ids(one)[1] != revocation_ids(other)[1]
    assert read(one, HOME.key, NOW).revocation_ids == revocation_ids(one)
    assert revocation_ids(granted()) != (of_all,)


def test_a_capability_cannot_grow_without_end():
    token = granted()
    for spend in range(capability.MOST_BLOCKS - 1):
        token = narrowed(token, spend=100 - spend)
    assert read(token, HOME.key, NOW).spend == 100 - (capability.MOST_BLOCKS - 2)
    assert len(token) <= Token.__metadata__[0].max_length
    with pytest.raises(Denied, match="cannot be narrowed 33 times"):
        read(appended(token, "check if spend($x), $x <= 1"), HOME.key, NOW)
    with pytest.raises(Denied, match="too long"):
        granted(channels=[f"project:{number}" * 10 for number in range(500)])
