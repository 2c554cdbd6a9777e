"""Signed notes and checkpoints are read and written as C2SP signed-note and tlog-checkpoint say."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from base64 import b64decode, b64encode
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from hypothesis import given
from hypothesis import strategies as st

from reflector.proof.anchors import NoAnchor, checkpoint, read_published
from reflector.proof.signed_note import (
    MOST_BYTES,
    KeyRefused,
    NoteRefused,
    PrivateKey,
    PublicKey,
    SigningUnavailable,
    open_note,
    sign,
)
from reflector.proof.verify import Anchor

# Published with Go's golang.org/x/mod/sumdb/note, the first implementation of the format.
PETER = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"
PETERS_OWN = "PRIVATE+KEY+PeterNeumann+c74f20a3+AYEKFALVFGyNhPJEMzD1QIDr+Y7hfZx09iUvxdXHKDFz"
ENOCH = "EnochRoot+af0cfe78+ATtqJ7zOtqQtYqOo0CpvDXNlMhV3HeJDpjrASKGLWdop"
TEXT = "If you think cryptography is the answer to your problem,\nthen you don't know what your problem is.\n"
BY_PETER = (
    "— PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=\n"
)
BY_ENOCH = "— EnochRoot rwz+eBzmZa0SO3NbfRGzPCpDckykFXSdeX+MNtCOXm2/5n2tiOHp+vAF1aGrQ5ovTG01oOTGwnWLox33WWd1RvMc+QQ=\n"
# Of an earlier edition of the signed-note specification.
FOO = "example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k"
BY_FOO = (
    "— example.com/foo Uw2QOkn8srV1yJGh2VYRlL1Tnagv1YEq6TfXppzi2ONncAlTgK7Ztg1ERYNZXsYjOBH3mFXmRKuwHjG1Yu72IneyaQM=\n"
)

CHAIN = "pl1:" + "0a" * 32
SEED = bytes(range(32))


def note(text: str = TEXT, *signatures: str) -> bytes:
    return (text + "\n" + "".join(signatures or (BY_PETER,))).encode()


def peter() -> PublicKey:
    return PublicKey.parse(PETER)


def by_hand(name: str, seed: bytes, text: str) -> tuple[str, str]:
    """(public key, signature line), made with the library and the specification alone."""
    key = Ed25519PrivateKey.from_private_bytes(seed)
    public = key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    key_id = hashlib.sha256(name.encode() + bytes([0x0A, 0x01]) + public).digest()[:4]
    line = f"\N{EM DASH} {name} {b64encode(key_id + key.sign(text.encode())).decode()}\n"
    return f"{name}+{key_id.hex()}+{b64encode(bytes([1]) + public).decode()}", line


def test_the_known_keys_and_notes_of_other_implementations_are_read() -> None:
    assert open_note(note(), [peter()]).text == TEXT
    both = [peter(), PublicKey.parse(ENOCH)]
    assert open_note(note(TEXT, BY_PETER, BY_ENOCH), both).signed_by == ("PeterNeumann", "EnochRoot")
    foo = PublicKey.parse(FOO)
    assert open_note(note("This is an example message.\n", BY_FOO), [foo]).signed_by == ("example.com/foo",)
    assert [str(key) for key in (peter(), foo)] == [PETER, FOO]
    assert str(PrivateKey("EnochRoot", bytes(32)).public_key) == ENOCH


def test_the_known_note_is_written_byte_for_byte() -> None:
    key = PrivateKey.parse(PETERS_OWN)
    assert key.encoded() == PETERS_OWN
    assert str(key.public_key) == PETER
    assert sign(TEXT, [key]).encode() == note()


def test_a_checkpoint_is_what_a_hand_writes_by_the_specification() -> None:
    text = f"example.com/p\n7\n{b64encode(bytes([10] * 32)).decode()}\nhash-chain pl1\n"
    public, line = by_hand("example.com/p", SEED, text)
    written = checkpoint(7, CHAIN, [PrivateKey("example.com/p", SEED)])
    assert written == f"{text}\n{line}"
    found = read_published(written.encode(), [PublicKey.parse(public)])
    assert (found.anchors, found.signed_by) == ((Anchor(7, CHAIN),), ("example.com/p",))


def test_openssl_takes_our_signature_for_its_own(tmp_path: Path) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("no openssl here")
    written = checkpoint(7, CHAIN, [PrivateKey("example.com/p", SEED)])
    text, _, line = written.rpartition("\n\n")
    (tmp_path / "text").write_bytes(f"{text}\n".encode())
    (tmp_path / "signature").write_bytes(b64decode(line.split()[2])[4:])
    key = Ed25519PrivateKey.from_private_bytes(SEED)
    (tmp_path / "key").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    command = ["openssl", "pkeyutl", "-verify", "-rawin", "-inkey", "key", "-in", "text", "-sigfile", "signature"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert "Verified Successfully" in ended.stdout, ended


def test_signatures_of_unknown_keys_are_passed_over_even_under_a_known_name() -> None:
    _, other = by_hand("PeterNeumann", SEED, TEXT)
    _, cosigned = by_hand("witness.example/w", SEED, "another text\n")
    opened = open_note(note(TEXT, other, cosigned, BY_ENOCH, BY_PETER), [peter()])
    assert opened.signed_by == ("PeterNeumann",)


def test_a_note_that_no_known_key_signed_is_refused_with_the_names_of_both() -> None:
    with pytest.raises(NoteRefused, match=r"PeterNeumann\+c74f20a3.*EnochRoot\+af0cfe78"):
        open_note(note(), [PublicKey.parse(ENOCH)])


@given(st.integers(0, len(TEXT) + 1), st.integers(1, 255))
def test_one_changed_byte_of_the_text_refuses_the_note(at: int, change: int) -> None:
    changed = bytearray(note())
    changed[at] ^= change
    with pytest.raises(NoteRefused):
        open_note(bytes(changed), [peter()])


def test_a_false_signature_of_a_known_key_refuses_what_another_one_signed() -> None:
    _, line = by_hand("example.com/p", SEED, "another text\n")
    public, _ = by_hand("example.com/p", SEED, TEXT)
    with pytest.raises(NoteRefused, match=r"example\.com/p.*does not fit"):
        open_note(note(TEXT, BY_PETER, line), [peter(), PublicKey.parse(public)])


def test_sixteen_signatures_are_taken_and_more_than_a_hundred_refused() -> None:
    lines = [by_hand(f"w{n}.example", SEED, TEXT)[1] for n in range(101)]
    assert open_note(note(TEXT, *lines[:15], BY_PETER), [peter()]).text == TEXT
    with pytest.raises(NoteRefused, match="more than 100"):
        open_note(note(TEXT, *lines, BY_PETER), [peter()])


def test_the_text_ends_at_the_last_empty_line() -> None:
    text = "one\n\n— two\n\nthree\n"
    public, line = by_hand("a", SEED, text)
    assert open_note(note(text, line), [PublicKey.parse(public)]).text == text


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "a text, an empty line"),
        (TEXT.encode(), "a text, an empty line"),
        (note()[:-1], "the last one ended"),
        (b"\xff" + note(), "not UTF-8"),
        (note().replace(b"you", b"y\x00u"), r"line 1 holds the control character '\\x00'"),
        (note().replace(b"\n", b"\r\n"), "control character"),
        (note().replace("—".encode(), b"--"), "is not a signature"),
        (note().replace(b"PeterNeumann ", b"Peter+Neumann "), "is not a signature"),
        (note().replace(b" PeterNeumann ", " Peter\u2003Neumann ".encode()), "is not a signature"),
        (note().replace(b" PeterNeumann ", b"  "), "is not a signature"),
        (note().replace(b"x08g", b"x08!"), "not base64"),
        (note(TEXT, "— PeterNeumann x08go/Y=\n"), "does not fit"),
        (note(TEXT, "— PeterNeumann x08gow==\n"), "too short"),
        (note("x" * MOST_BYTES + "\n"), "bytes, which no note has"),
    ],
)
def test_a_malformed_note_is_refused_with_what_is_wrong(content: bytes, told: str) -> None:
    with pytest.raises(NoteRefused, match=told):
        open_note(content, [peter()])


@given(st.binary(max_size=300))
def test_no_bytes_are_anything_but_refused(content: bytes) -> None:
    for mixed in (content, note() + content, content + note()):
        try:
            assert open_note(mixed, [peter()]).text == TEXT
        except NoteRefused:
            continue
        assert content == b""


@pytest.mark.parametrize("cut", range(len(PETER)))
def test_a_part_of_a_public_key_is_refused(cut: int) -> None:
    with pytest.raises(KeyRefused):
        PublicKey.parse(PETER[:cut])
    with pytest.raises(KeyRefused):
        PublicKey.parse(PETER[:cut] + chr(ord(PETER[cut]) + 1) + PETER[cut + 1 :])


@pytest.mark.parametrize(
    "text", ["", PETER, PETERS_OWN[:-4], PETERS_OWN.replace("c74f20a3", "c74f20a4"), "PRIVATE+KEY+"]
)
def test_what_is_no_private_key_is_refused_and_not_shown(text: str) -> None:
    with pytest.raises(KeyRefused) as refused:
        PrivateKey.parse(text)
    assert "AYEKFALV" not in str(refused.value)


def test_a_key_of_another_algorithm_is_refused() -> None:
    with pytest.raises(KeyRefused, match="Ed25519"):
        PublicKey.parse("PeterNeumann+173116ae+ZRpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW")


@pytest.mark.parametrize("name", ["", "two words", "a+b", "a\tb", "a\nb", "x" * 201, "a\u200bb"])
def test_a_name_that_no_key_may_have_is_refused(name: str) -> None:
    with pytest.raises(KeyRefused, match="cannot name a key"):
        PrivateKey.generate(name)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("example.com/p\n7\n", "no checkpoint"),
        ("\n7\nCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgo=\nhash-chain pl1\n", "no checkpoint"),
        ("example.com/p\n7\nCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgo=\n\nhash-chain pl1\n", "no checkpoint"),
        ("example.com/p\n7\nCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgo=\n", "not a ledger of reflector's"),
        ("example.com/p\n07\nCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgo=\nhash-chain pl1\n", "no position"),
        ("example.com/p\n-7\nCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgo=\nhash-chain pl1\n", "no position"),
        ("example.com/p\n٧\nCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgo=\nhash-chain pl1\n", "no position"),
        ("example.com/p\n7\nCgo=\nhash-chain pl1\n", "no position or no SHA-256"),
        ("example.com/p\n7\n???\nhash-chain pl1\n", "no position or no SHA-256"),
    ],
)
def test_a_signed_text_that_is_no_checkpoint_of_ours_is_no_anchor(text: str, told: str) -> None:
    key = PrivateKey("example.com/p", SEED)
    with pytest.raises(NoteRefused, match=told):
        read_published(sign(text, [key]).encode(), [key.public_key])


def test_other_extension_lines_do_not_disturb() -> None:
    key = PrivateKey("example.com/p", SEED)
    text = "example.com/p\n7\nCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgo=\nweather fair\nhash-chain pl1\nx\n"
    assert read_published(sign(text, [key]).encode(), [key.public_key]).anchors == (Anchor(7, CHAIN),)


def test_nothing_unsigned_is_taken_where_a_key_is_named_and_no_note_without_one() -> None:
    with pytest.raises(NoAnchor, match="not a signed note"):
        read_published(f"7:{CHAIN}\n".encode(), [peter()])
    with pytest.raises(NoAnchor, match="add --key"):
        read_published(note(), [])


def test_without_the_library_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "cryptography.hazmat.primitives.asymmetric.ed25519", None)
    for ask in (lambda: PrivateKey.generate("a"), lambda: open_note(note(), [peter()])):
        with pytest.raises(SigningUnavailable, match="-m pip install 'cryptography"):
            ask()
