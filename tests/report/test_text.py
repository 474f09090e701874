import pytest

from edgeformers.report.text import number, printable


def test_what_steers_a_terminal_or_turns_the_writing_is_removed():
    assert printable("a\x1b[31mb\u202ec\nd\x00") == "a[31mbcd"


def test_letters_of_all_scripts_and_joined_emoji_stay():
    for text in ("naïve café", "良い", "می\u200cخواهم", "👩\u200d🚀"):
        assert printable(text) == text


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (1204, "1,204"),
        (3.0, "3"),
        (0.12345, "0.1235"),
        (-0.5, "-0.5"),
        (1234.5, "1,234"),
        (1e20, "1e+20"),
    ],
)
def test_numbers_are_whole_or_have_four_digits(value, words):
    assert number(value) == words
