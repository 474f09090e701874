import gzip
import mailbox
from datetime import datetime
from email.message import EmailMessage

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edgeformers.data.readers.mbox import (
    MailCounts,
    body_text,
    decode_bytes,
    find_address,
    header_text,
    read_mbox,
    remove_quotes,
)
from edgeformers.errors import InputError

FROM = b"From ada@x.org Mon Jan  1 00:00:00 2024\n"
FIRST = b"From: Ada <Ada@X.org>\nMessage-ID: <1@x>\nSubject: Engines\n\nWho has one?\n"


def mail(text: bytes, *headers: bytes, sender: bytes = b"Bob <bob@x.org>") -> bytes:
    """A reply to FIRST, unless its headers say otherwise."""
    head = headers or (b"In-Reply-To: <1@x>",)
    return b"\n".join([b"From: " + sender, *head]) + b"\n\n" + text + b"\n"


@pytest.fixture
def archive(tmp_path):
    def write(*mails: bytes, name: str = "list.mbox"):
        path = tmp_path / name
        path.write_bytes(b"\n".join(FROM + one for one in mails))
        return path

    return write


def rows(table):
    return table.to_arrow().to_pylist()


def text_of(path) -> str:
    [row] = rows(read_mbox(path))
    return row["text"]


def test_a_reply_is_an_edge_from_its_sender_to_the_author_of_the_parent(archive):
    answer = mail(
        b"On Mon, Jan 1, 2024 at 9:00 AM Ada <ada@x.org> wrote:\n> Who has one?\n\nI have.\n"
        b"\n-- \nBob\nLondon",
        b"Message-ID: <2@x>",
        b"In-Reply-To: <1@x>",
        b"Subject: =?utf-8?q?Re=3A_Engines_=E2=9A=99?=\n and wheels",
        b"Date: Mon, 1 Jan 2024 12:00:00 +0200",
    )
    table = read_mbox(archive(FIRST, answer))
    assert rows(table) == [
        {
            "source": "bob@x.org",
            "target": "ada@x.org",
            "text": "I have.",
            "time": datetime(2024, 1, 1, 10),
            "subject": "Re: Engines ⚙ and wheels",
            "message_id": "2@x",
        }
    ]
    assert not table.bipartite
    assert table.directed


def test_messages_that_are_no_edges_are_counted_on_each_reading(archive):
    answer = mail(b"Yes", b"Message-ID: <2@x>", b"In-Reply-To: <1@x>")
    unknown = mail(b"?", b"In-Reply-To: <gone@x>", b"References: <1@x> <gone@x>")
    table = read_mbox(archive(FIRST, answer, unknown, answer))
    expected = MailCounts(messages=4, replies=1, no_parent=1, unknown_parent=1, duplicates=1)
    assert len(rows(table)) == 1
    assert table.counts == expected
    assert len(rows(table)) == 1
    assert table.counts == expected


def test_in_reply_to_takes_precedence_over_the_last_reference(archive):
    other = mail(b"", b"Message-ID: <2@x>", sender=b"cy@x.org")
    first = mail(b"a", b"In-Reply-To: mail of Monday <1@x>", b"References: <2@x>")
    then = mail(b"b", b"In-Reply-To: <gone@x>", b"References: <1@x>\n\t<2@x>")
    alone = mail(b"c", b"References: <2@x> <1@x>")
    targets = {
        row["text"]: row["target"]
        for row in rows(read_mbox(archive(FIRST, other, first, then, alone)))
    }
    assert targets == {"a": "ada@x.org", "b": "cy@x.org", "c": "ada@x.org"}


def test_a_reply_may_precede_its_parent_and_be_in_another_file(archive, tmp_path):
    archive(mail(b"Early"), name="a.mbox")
    archive(FIRST, name="b.mbox")
    for paths in (tmp_path / "*.mbox", [tmp_path / "a.mbox", tmp_path / "b.mbox"]):
        assert [row["target"] for row in rows(read_mbox(paths))] == ["ada@x.org"]


def test_compressed_archives_are_read(archive):
    path = archive(FIRST, mail(b"Yes"))
    packed = path.with_suffix(".mbox.gz")
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert rows(read_mbox(packed)) == rows(read_mbox(path))


def test_archives_of_the_standard_library_are_read(tmp_path):
    box = mailbox.mbox(tmp_path / "box")
    for number, (sender, answers) in enumerate([("a@x", None), ("b@x", 0), ("c@x", 1), ("a@x", 1)]):
        message = EmailMessage()
        message["From"], message["Message-ID"] = sender, f"<{number}@x>"
        if answers is not None:
            message["In-Reply-To"] = f"<{answers}@x>"
        message.set_content(f"Body {number} é\n\nFrom here on 12:00 in 2024\n")
        box.add(message)
    box.close()
    table = rows(read_mbox(tmp_path / "box"))
    assert [(r["source"], r["target"]) for r in table] == [
        ("b@x", "a@x"),
        ("c@x", "b@x"),
        ("a@x", "b@x"),
    ]
    assert [r["text"] for r in table] == [
        f"Body {number} é\n\nFrom here on 12:00 in 2024" for number in (1, 2, 3)
    ]


def test_a_from_line_without_a_date_is_text(archive):
    assert text_of(archive(FIRST, mail(b"One\n\nFrom what I know, no.\n\n>From here"))) == (
        "One\n\nFrom what I know, no.\n\nFrom here"
    )


def test_carriage_returns_at_line_ends_are_removed(archive):
    path = archive(FIRST, mail(b"One\nTwo"))
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert text_of(path) == "One\nTwo"


def test_the_plain_part_is_preferred_and_attachments_are_ignored(archive):
    body = EmailMessage()
    body["From"], body["In-Reply-To"] = "bob@x.org", "<1@x>"
    body.set_content("Plain é")
    body.add_alternative("<p>Rich</p>", subtype="html")
    body.add_attachment("a file", filename="a.txt")
    assert text_of(archive(FIRST, body.as_bytes())) == "Plain é"


def test_an_html_mail_becomes_text(archive):
    html = (
        b"<html><head><title>no</title><style>p {color: red}</style></head><body><p>Yes &amp;\n no"
        b"<br>second</p><div>On Mon, Jan 1, 2024, Ada wrote:</div>"
        b"<blockquote>old <blockquote>older</blockquote> old</blockquote><p>third</p></body></html>"
    )
    path = archive(FIRST, mail(html, b"In-Reply-To: <1@x>", b"Content-Type: text/html"))
    assert text_of(path) == "Yes & no\nsecond\n\nthird"


@pytest.mark.parametrize(
    ("content_type", "encoding", "body", "text"),
    [
        (b"text/plain; charset=iso-8859-1", b"8bit", b"caf\xe9", "café"),
        (b"text/plain; charset=utf-8", b"8bit", b"caf\xe9", "café"),  # says one, is another
        (b"text/plain; charset=us-ascii", b"8bit", "café".encode(), "café"),
        (b"text/plain; charset=x-unheard-of", b"8bit", "café".encode(), "café"),
        (b'text/plain; charset="koi8-r"', b"base64", b"0NLJ18XU", "привет"),
        (
            b"text/plain; charset=utf-8",
            b"quoted-printable",
            b"caf=C3=A9 =\nau lait",
            "café au lait",
        ),
        (b"text/plain; charset=utf-8", b"base64", b"YWJjZA", "abcd"),  # lacks its padding
        (b"text/plain; charset=utf-8", b"base64", b"!!!", ""),
        (b"text/plain; charset=hex", b"8bit", b"abcd", "abcd"),
        (b"multipart/mixed", b"8bit", b"no boundary", "no boundary"),
        (b"multipart/mixed; boundary=b", b"8bit", b"no part", "no part"),
        (b"image/png", b"base64", b"AAAA", ""),
        (b"nonsense", b"8bit", b"text", "text"),
    ],
)
def test_wrong_and_unknown_charsets_are_handled(archive, content_type, encoding, body, text):
    headers = (b"Content-Type: " + content_type, b"Content-Transfer-Encoding: " + encoding)
    assert text_of(archive(FIRST, mail(body, b"In-Reply-To: <1@x>", *headers))) == text


@pytest.mark.parametrize(
    ("subject", "text"),
    [
        (b"=?iso-8859-1?q?caf=E9?= =?utf-8?b?4pqZ?=", "café⚙"),
        (b"caf\xe9", "café"),
        (b"=?nonsense?q?caf=C3=A9?=", "café"),
        (b"=?utf-8?b?a?= broken", "=?utf-8?b?a?= broken"),
    ],
)
def test_encoded_headers_are_decoded(archive, subject, text):
    [row] = rows(
        read_mbox(archive(FIRST, mail(b"", b"In-Reply-To: <1@x>", b"Subject: " + subject)))
    )
    assert row["subject"] == text


@pytest.mark.parametrize(
    ("date", "time"),
    [
        (b"Mon, 1 Jan 2024 12:00:00 -0000", datetime(2024, 1, 1, 12)),
        (b"1 Jan 2024 12:00:00 EST", datetime(2024, 1, 1, 17)),
        (b"yesterday", None),
        (b"Mon, 99 Jan 2024 12:00:00 +0000", None),
        (b"Fri, 31 Dec 9999 23:00:00 -0200", None),
    ],
)
def test_the_date_is_in_utc_and_null_if_invalid(archive, date, time):
    answer = mail(b"", b"In-Reply-To: <1@x>", b"Date: " + date)
    assert [row["time"] for row in rows(read_mbox(archive(FIRST, answer)))] == [time]


@pytest.mark.parametrize(
    ("sender", "address"),
    [
        ("Ada Lovelace <Ada@X.org>", "ada@x.org"),
        ("ada@x.org (Ada Lovelace)", "ada@x.org"),
        ("ada at x.org (Ada Lovelace)", "ada@x.org"),
        ("Lovelace, Ada <ada@x.org>", "ada@x.org"),
        ('"ada@home" <ada@x.org>', "ada@x.org"),
        ("'ada@x.org'", "ada@x.org"),
        ("o'brien@x.org", "o'brien@x.org"),
        ("Ada at home", None),
        ("", None),
    ],
)
def test_addresses_are_found_in_every_common_form(sender, address):
    assert find_address(sender) == address


def test_a_reply_without_an_address_is_reported_or_skipped(archive):
    path = archive(FIRST, mail(b"Boo", sender=b"nobody"), mail(b"Yes"))
    with pytest.raises(
        InputError,
        match=r"list.mbox, line 8: .*address .*'nobody'",
    ):
        rows(read_mbox(path))
    table = read_mbox(path, on_error="skip")
    assert [row["text"] for row in rows(table)] == ["Yes"]
    assert table.errors.count == 1


def test_deeply_nested_parts_are_reported_or_skipped(archive):
    deep = b"".join(
        b"Content-Type: multipart/mixed; boundary=b%d\n\n--b%d\n" % (n, n) for n in range(3000)
    )
    path = archive(FIRST, b"From: bob@x.org\nIn-Reply-To: <1@x>\n" + deep)
    with pytest.raises(InputError, match=r"line 8: .*nested"):
        rows(read_mbox(path))
    assert rows(read_mbox(path, on_error="skip")) == []


def test_other_files_are_rejected(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("\nDear diary\n")
    with pytest.raises(InputError, match=r"notes.txt, line 2: .*'Dear diary'"):
        read_mbox(path)
    path.write_text("")
    with pytest.raises(InputError, match=r"notes.txt, line 1: .*mbox"):
        read_mbox(path)
    with pytest.raises(InputError, match="is a folder"):
        read_mbox(tmp_path)
    with pytest.raises(InputError, match=r"gone.mbox: no such file"):
        read_mbox(tmp_path / "gone.mbox")


NOISE = st.one_of(
    st.binary(max_size=60),
    st.sampled_from(
        [FROM, b"\n", b"From: ", b"In-Reply-To: <1@x>\n", b"=?utf-8?b?", b"<![", b"--b"]
    ),
    st.sampled_from([b"Content-Type: multipart/mixed; boundary=b\n", b"Content-Type: text/html\n"]),
    st.sampled_from([b"Content-Transfer-Encoding: uuencode\n", b"Date: ", b"wrote:\n"]),
)


@settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(NOISE, max_size=15))
def test_any_bytes_are_read(archive, noise):
    path = archive(FIRST, mail(b"", sender=b"bob@x.org\nIn-Reply-To: <1@x>"), b"".join(noise))
    table = read_mbox(path, on_error="skip")
    assert rows(table)[0]["source"] == "bob@x.org"
    counts = table.counts
    assert counts.messages == sum(
        [
            counts.replies,
            counts.no_parent,
            counts.unknown_parent,
            counts.duplicates,
            table.errors.count,
        ]
    )


def test_a_header_is_one_line_and_empty_if_missing():
    message = EmailMessage()
    message["Subject"] = "one two"
    assert header_text(message, "Subject") == "one two"
    assert header_text(message, "Date") == ""


def test_the_body_is_the_plain_part_or_else_the_html_as_text():
    message = EmailMessage()
    message.set_content("<p>Rich</p>", subtype="html")
    assert body_text(message).strip() == "Rich"
    message.add_alternative("Plain", subtype="plain")
    assert body_text(message).strip() == "Plain"


def test_lone_surrogates_are_replaced():
    assert decode_bytes(rb"a\ud800", "unicode_escape") == "a?"


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("> a\n>> b\n  > c\nnew", "new"),
        ("On Mon, Jan 1, 2024 at 9:00 AM Ada\nLovelace <ada@x.org>\nwrote:\n> a\nnew", "new"),
        ("Ada Lovelace <ada@x.org> writes:\n\n> a\n\nnew", "new"),
        ("Am 01.01.2024 um 09:00 schrieb Ada:\n> a\nnew", "new"),
        ("Le lun. 1 janv. 2024 à 09:00, Ada a écrit :\n> a\nnew", "new"),
        ("new\n\n-----Original Message-----\nFrom: Ada\n\nhers", "new"),
        ("new\n---------- Forwarded message ---------\nhers", "new"),
        ("new\n\nFrom: Ada <ada@x.org>\nSent: Monday\nTo: Bob\n\nhers", "new"),
        ("new\n" + "_" * 47 + "\nmath mailing list\nmath@x.org", "new"),
        ("new\n-- \nBob", "new"),
        ("new\n--\nBob", "new"),
        ("a\n> q\n\n> q\n\nb", "a\n\nb"),
        ("a --\nb", "a --\nb"),
        ("As Byron wrote:\nshe walks", "As Byron wrote:\nshe walks"),
        ("On 3 machines it fails.\nThe log says what he wrote:\nnothing", None),
        ("> only quoted", ""),
        ("", ""),
    ],
)
def test_only_what_the_sender_wrote_is_kept(body, text):
    assert remove_quotes(body) == (body if text is None else text)
