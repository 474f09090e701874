import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeformers.data.readers.html import html_to_text, mail_html_to_text


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("<p>one</p>\n\n<p>two &gt; 1</p>", "one\ntwo > 1"),
        ("<pre><code>if x:\n    y &lt; 2\n</code></pre>", "if x:\n    y < 2"),
        ("plain", "plain"),
        ("a <b>bold</b> word", "a bold word"),
        ("1 < 2 and 3", "1 < 2 and 3"),
        ("x<style>p {color: red}</style> y", "x y"),
        ("two\nlines &amp; more", "two\nlines & more"),
        ("<dl><dt>a</dt><dd>b</dd></dl>", "a\nb"),
        ("<script>no</script></script>yes", "yes"),
    ],
)
def test_html_becomes_plain_text(html, text):
    assert html_to_text(html) == text


def test_a_mail_keeps_the_lines_of_preformatted_text_only():
    assert mail_html_to_text("<pre>a\n  b</pre>c\nd") == "\na\n  b\nc d"


def test_a_quoted_block_of_a_mail_becomes_a_quoted_line():
    html = "<title>no</title>a<blockquote>old<blockquote>older</blockquote></blockquote>b"
    lines = mail_html_to_text(html).split("\n")
    assert [line for line in lines if line.strip(" >")] == ["a", "b"]
    assert "> " in lines


@pytest.mark.parametrize("convert", [html_to_text, mail_html_to_text])
def test_malformed_html_only_loses_its_tags(convert):
    assert convert("before <![]> <b>after</b>").split() == ["before", "after"]


@given(st.text(st.sampled_from("<>/!-[]&;#ab \n\"='p"), max_size=30))
def test_any_fragment_is_converted(html):
    assert html_to_text(html) == html_to_text(html).strip()
    mail_html_to_text(html)
