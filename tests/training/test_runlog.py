"""The log of a run: whole lines, each step once, for callbacks too."""

import pytest

from edgeformers.errors import FormatError
from edgeformers.progress import print_message
from edgeformers.training import runlog
from edgeformers.training.callbacks import Callback
from edgeformers.training.runlog import RunLog, read_log


def test_events_are_read_back_and_those_after_a_checkpoint_forgotten(tmp_path):
    log = RunLog(tmp_path)
    for step in (1, 2, 3):
        log.write("train", step, loss=step / 3)
    log.close()
    assert [e["step"] for e in read_log(log.path)] == [1, 2, 3]
    RunLog(tmp_path, resume_step=2)
    assert [(e["step"], e["loss"]) for e in read_log(log.path)] == [(1, 1 / 3), (2, 2 / 3)]
    RunLog(tmp_path)
    assert read_log(log.path) == []


@pytest.mark.parametrize("cut", [1, 5, 20])
def test_a_last_line_cut_off_is_left_out_and_the_next_begins_afresh(tmp_path, cut):
    log = RunLog(tmp_path)
    log.write("train", 1, loss=0.5)
    log.write("train", 2, loss=0.25)
    log.close()
    log.path.write_bytes(log.path.read_bytes()[:-cut])
    again = RunLog(tmp_path, resume_step=5)
    again.write("train", 3, loss=0.125)
    again.close()
    steps = [1, 2, 3] if cut == 1 else [1, 3]
    assert [e["step"] for e in read_log(log.path)] == steps


def test_events_of_steps_are_written_together_once_a_second_and_others_at_once(
    tmp_path, monkeypatch
):
    now = [100.0]
    monkeypatch.setattr(runlog.time, "monotonic", lambda: now[0])
    log = RunLog(tmp_path)

    def written():
        return [e["step"] for e in read_log(log.path)] if log.path.exists() else []

    log.write("train", 1, loss=0.5)
    log.write("train", 2, loss=0.5)
    assert written() == []
    now[0] += 1.5
    log.write("train", 3, loss=0.5)
    assert written() == [1, 2, 3]
    log.write("train", 4, loss=0.5)
    log.write("val", 4, macro_f1=0.5)
    assert written() == [1, 2, 3, 4, 4]
    log.write("train", 5, loss=0.5)
    log.flush()
    log.flush()
    assert written() == [1, 2, 3, 4, 4, 5]


def test_a_line_broken_elsewhere_is_named(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"kind": "train", "step": 1}\n{"kind\n{"kind": "train", "step": 3}\n')
    with pytest.raises(FormatError, match=r"metrics.jsonl, line 2"):
        read_log(path)


def test_without_a_folder_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    log = RunLog(None)
    log.write("train", 1, loss=1.0)
    log.close()
    assert not list(tmp_path.iterdir())


def test_callbacks_get_plain_values(tmp_path):
    seen = []

    class Follower(Callback):
        def on_event(self, kind, step, values):
            seen.append((kind, step, values))

        def on_end(self):
            seen.append("end")

    log = RunLog(tmp_path, callbacks=[Follower()])
    log.write("val", 4, macro_f1=0.5, note="a word", worst=float("nan"))
    log.close()
    assert seen == [("val", 4, {"macro_f1": 0.5, "note": "a word", "worst": None}), "end"]


def test_a_sentence_goes_to_stderr_when_shown(capsys):
    print_message("hear", show=True)
    print_message("not", show=False)
    assert capsys.readouterr() == ("", "hear\n")
