from email.message import EmailMessage

import pytest

from edgeformers.data.readers.mailtext import body_text, decode_bytes, header_text, own_words


def test_a_header_is_one_line_and_empty_where_there_is_none():
    message = EmailMessage()
    message["Subject"] = "one two"
    assert header_text(message, "Subject") == "one two"
    assert header_text(message, "Date") == ""


def test_the_body_is_the_plain_part_and_else_the_html_as_text():
    message = EmailMessage()
    message.set_content("<p>Rich</p>", subtype="html")
    assert body_text(message).strip() == "Rich"
    message.add_alternative("Plain", subtype="plain")
    assert body_text(message).strip() == "Plain"


def test_a_lone_surrogate_never_reaches_the_table():
    assert decode_bytes(rb"a\ud800", "unicode_escape") == "a?"


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("> a\n>> b\n  > c\nmine", "mine"),
        ("On Mon, Jan 1, 2024 at 9:00 AM Ada\nLovelace <ada@x.org>\nwrote:\n> a\nmine", "mine"),
        ("Ada Lovelace <ada@x.org> writes:\n\n> a\n\nmine", "mine"),
        ("Am 01.01.2024 um 09:00 schrieb Ada:\n> a\nmine", "mine"),
        ("Le lun. 1 janv. 2024 à 09:00, Ada a écrit :\n> a\nmine", "mine"),
        ("mine\n\n-----Original Message-----\nFrom: Ada\n\nhers", "mine"),
        ("mine\n---------- Forwarded message ---------\nhers", "mine"),
        ("mine\n\nFrom: Ada <ada@x.org>\nSent: Monday\nTo: Bob\n\nhers", "mine"),
        ("mine\n" + "_" * 47 + "\nmath mailing list\nmath@x.org", "mine"),
        ("mine\n-- \nBob", "mine"),
        ("mine\n--\nBob", "mine"),
        ("a\n> q\n\n> q\n\nb", "a\n\nb"),
        ("a --\nb", "a --\nb"),
        ("As Byron wrote:\nshe walks", "As Byron wrote:\nshe walks"),
        ("On 3 machines it fails.\nThe log says what he wrote:\nnothing", None),
        ("> only quoted", ""),
        ("", ""),
    ],
)
def test_only_the_writers_own_words_are_kept(body, text):
    assert own_words(body) == (body if text is None else text)
