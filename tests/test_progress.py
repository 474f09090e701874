"""Progress in a terminal is one bar at a time; elsewhere it is a line every few seconds."""

import io
import sys

from edgeformers import progress
from edgeformers.progress import Bar, LogLines, progress_bar


class Terminal(io.StringIO):
    def isatty(self):
        return True


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def use_terminal(monkeypatch, bar_after=0):
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setattr(progress, "BAR_AFTER", bar_after)
    return sys.stderr


def run_task(seconds, steps=100, **options):
    """The lines of a task whose steps take equally long."""
    clock, file = Clock(), io.StringIO()
    with LogLines(steps, desc="training", unit="steps", file=file, clock=clock, **options) as bar:
        for _ in range(steps):
            clock.now += seconds / steps
            bar.update()
    return file.getvalue()


def test_a_bar_says_task_rate_and_time_left(monkeypatch):
    terminal = use_terminal(monkeypatch)
    with progress_bar(4, desc="training", unit="steps", show=True) as bar:
        bar.mininterval = 0
        for _ in range(3):
            bar.update()
    shown = terminal.getvalue().split("\r")[-1]
    assert shown.startswith("training")
    assert all(part in shown for part in ("3/4", "<00:00", "steps/s"))


def test_an_inner_bar_takes_the_line_of_the_outer_one(monkeypatch):
    terminal = use_terminal(monkeypatch)
    with progress_bar(2, desc="training", unit="steps", show=True) as outer:
        outer.update()
        with progress_bar(2, desc="encoding", unit="edges", show=True) as inner:
            inner.mininterval = 0
            inner.update()
        shown = terminal.getvalue()
        assert "encoding" in shown
        assert "\n" not in shown
        assert "\x1b[A" not in shown  # the cursor never leaves the line
        outer.refresh()
    assert "training" in terminal.getvalue().split("\r")[-1]
    assert not Bar.open_bars


def test_a_short_task_shows_nothing(monkeypatch):
    terminal = use_terminal(monkeypatch, bar_after=60)
    with progress_bar(2, desc="training", unit="steps", show=True) as bar:
        bar.update(2)
    assert "training" not in terminal.getvalue()
    assert run_task(seconds=3) == ""


def test_output_that_is_no_terminal_gets_lines(capsys, monkeypatch):
    monkeypatch.setattr(progress, "LINE_EVERY", (0.0, 0.0))
    with progress_bar(2, desc="training", unit="steps", show=True) as bar:
        bar.set_postfix(loss=0.5)
        bar.update()
        bar.update()
    shown = capsys.readouterr().err
    assert "\r" not in shown
    assert len(shown.splitlines()) == 2
    assert "loss=0.5" in shown


def test_nothing_is_shown_unless_wanted(capsys):
    with progress_bar(2, desc="training", unit="steps", show=False) as bar:
        bar.update(2)
    assert capsys.readouterr().err == ""


def test_a_line_says_task_rate_and_time_left():
    first = run_task(seconds=20).splitlines()[0]
    assert first == "training: 25 of 100 steps (25%), 5.0 steps/s, 15 s left"


def test_a_resumed_task_counts_its_rate_from_where_it_started():
    clock, file = Clock(), io.StringIO()
    bar = LogLines(100, desc="training", unit="steps", done=50, file=file, clock=clock)
    clock.now = 10.0
    bar.update(10)
    assert file.getvalue() == "training: 60 of 100 steps (60%), 1.0 steps/s, 40 s left\n"


def test_the_last_line_says_how_long_it_took():
    last = run_task(seconds=200).splitlines()[-1]
    assert last == "training: 100 of 100 steps (100%), 0.5 steps/s, 3:20 min in all"


def test_a_day_prints_a_line_a_minute_at_most():
    lines = run_task(seconds=86_400, steps=86_400).splitlines()
    assert 1_000 < len(lines) < 1_500
    assert run_task(seconds=60, steps=600).count("\n") == 12
