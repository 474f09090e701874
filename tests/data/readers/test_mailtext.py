from email.message import EmailMessage

import pytest

from edgeformers.data.readers.mbox import body_text, decode_bytes, header_text, remove_quotes


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
