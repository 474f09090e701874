import pytest

from edgeformers.files import write_atomic


def test_a_file_is_replaced_whole(tmp_path):
    path = tmp_path / "page.html"
    for text in ("old", "new é"):
        write_atomic(path, text)
        assert path.read_text(encoding="utf-8") == text
    assert [one.name for one in tmp_path.iterdir()] == ["page.html"]


def test_a_failed_write_leaves_the_old_file_and_nothing_beside_it(tmp_path):
    path = tmp_path / "page.html"
    write_atomic(path, "old")
    with pytest.raises(UnicodeEncodeError):
        write_atomic(path, "\udc80")
    assert path.read_text(encoding="utf-8") == "old"
    assert [one.name for one in tmp_path.iterdir()] == ["page.html"]
