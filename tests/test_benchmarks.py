"""Benchmarks: the reference computes what our models compute, and each of them runs anywhere."""

import json
import sys

import numpy as np
import pytest
import torch

from benchmarks import apps, embed_cpu, export, scale, step, throughput, time_to_quality
from benchmarks.network import regular_network, simulated_network, write_random_tokens
from benchmarks.reference import GOLDEN, check_golden, pad_edges, pad_egos, padded_twin
from benchmarks.workload import REAL_LENGTHS, bert_encoder, draw_lengths, spread, useful_flops
from edgeformers.data.graph import EdgeTextGraph
from tests.tiny_models import make_tiny
from tests.training.batches import edges, egos

close = {"atol": 1e-5, "rtol": 1e-5}


def known(batch, **names):
    """The batch with nodes that the reference, which has no unknown one, can look up."""
    from dataclasses import replace

    return replace(batch, **{name: getattr(batch, name).clamp(min=0) for name in names})


@torch.no_grad()
def test_the_padded_edges_are_ours():
    model = make_tiny("edgeformer-e", fidelity="released")
    batch = known(edges(6), src=0, dst=0)
    torch.testing.assert_close(padded_twin(model)(pad_edges(batch, 12)), model(batch), **close)


@torch.no_grad()
def test_the_padded_ego_graphs_are_ours():
    model = make_tiny("edgeformer-n", fidelity="released")
    batch = known(egos(3, 1, 4), center=0, neighbor=0)
    torch.testing.assert_close(padded_twin(model)(pad_egos(batch, 4, 12)), model(batch), **close)


@pytest.mark.skipif(not GOLDEN.is_dir(), reason="needs the folder of golden outputs")
def test_the_padded_models_give_what_the_release_gave():
    found = check_golden()
    assert found is not None
    assert found < 1e-5


def test_drawn_lengths_follow_the_quantiles():
    drawn = draw_lengths(20_000, full=False, rng=np.random.default_rng(0))
    at = np.linspace(0, 1, len(REAL_LENGTHS))
    assert np.abs(np.quantile(drawn, at) - REAL_LENGTHS).max() <= 2
    few = spread(REAL_LENGTHS, 300, np.random.default_rng(0))
    assert abs(few.mean() - drawn.mean()) < 0.5
    assert few.tolist() != sorted(few)
    assert set(draw_lengths(5, full=True, rng=np.random.default_rng(0))) == {64}


def test_useful_flop_of_one_text_worked_by_hand():
    """Two layers 4 wide with an FFN of 16, a text of 3 tokens, 2 virtual tokens."""
    config = bert_encoder(layers=2, width=4)
    first = 3 * (4 * 4 * 2 * 2 + 2 * 2 * 4 * 16) + 3 * 2 * 4 * 8 + 4 * 3 * 3 * 4
    last = 1 * (4 * 4 * 2 * 2 + 2 * 2 * 4 * 16) + 5 * 2 * 4 * 8 + 4 * 1 * 5 * 4
    found = useful_flops(config, np.array([3]), virtual=2, local=False)
    assert found == first + last


def test_a_network_written_from_arrays_is_a_network(tmp_path):
    graph = simulated_network(tmp_path / "network", 600)
    opened = EdgeTextGraph.open(graph.path, verify=True)
    assert (opened.num_edges, opened.is_bipartite, opened.label_kind) == (600, True, "class")
    assert opened.src.max() < opened.num_sources <= opened.dst.min()
    assert opened.dst.max() < opened.num_nodes == len(opened.nodes(["id"]))
    assert set(opened.splits) == {"edge", "link"}
    words = [len(text.split()) for text in opened.texts(np.arange(600))]
    lengths = draw_lengths(600, full=False, rng=np.random.default_rng(0))
    assert words == (lengths - 2).tolist()


def test_a_regular_network_gives_every_source_as_many_edges_and_texts_without_words(tmp_path):
    graph = regular_network(tmp_path / "network", 200, degree=10)
    tokens = write_random_tokens(graph, 100)
    degrees = np.bincount(np.concatenate([graph.src, graph.dst]), minlength=graph.num_nodes)
    assert graph.num_nodes == 200
    assert sorted(degrees)[-40:] == [10] * 40
    ids, offsets = tokens.take([0, 1], 64)
    assert ids[offsets[:-1]].tolist() == [0, 0]  # what stands for [CLS]
    assert len(tokens) == 200
    assert tokens.ids.max() < 100


def test_training_is_timed_beside_the_bare_step_without_a_database(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "duckdb", None)
    options = ["--device", "cpu", "--backbone", "scratch:2x16", "--edges", "300", "--batch", "4"]
    more = ["--steps", "2", "--trace", str(tmp_path / "trace.json"), "--out", str(tmp_path)]
    found = throughput.main(options + more)
    assert "FAILED" not in capsys.readouterr().out
    assert [(one.task, one.batch, one.record) for one in found] == [
        ("links", 4, "off"),
        ("edges", 40, "off"),
    ]  # on a CPU the other ways are no others
    assert all(one.edges <= 40 for one in found)
    assert 5 <= found[0].centers <= 8  # targets that repeat are encoded once
    assert found[1].centers == 0
    assert all(one.bare_ms > 0 and one.whole_ms > 0 and one.waits is None for one in found)
    assert len(list(tmp_path.glob("trace-*.json"))) == 2
    assert len(json.loads((tmp_path / "throughput.json").read_text())["rates"]) == 2


def test_a_training_that_fails_is_told_and_the_others_go_on(capsys):
    options = ["--device", "cpu", "--edges", "200", "--batch", "4", "--steps", "1"]
    found = throughput.main(
        [*options, "--backbone", "scratch:1x1", "scratch:2x16", "--tasks", "edges"]
    )
    assert [one.backbone for one in found] == ["scratch:2x16"]
    assert "FAILED scratch:1x1 edges 40" in capsys.readouterr().out


def test_time_in_which_a_gpu_works_is_counted_once(tmp_path):
    """Work from 0 to 4 and from 3 to 6 ms overlaps; from 8 to 9 follows; the host's is not its."""
    spans = [("kernel", 3000, 3000), ("gpu_memcpy", 0, 4000), ("kernel", 8000, 1000)]
    events = [{"cat": cat, "ts": ts, "dur": dur} for cat, ts, dur in spans]
    events += [{"cat": "cpu_op", "ts": 0, "dur": 9000}, {"name": "no time at all"}]
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": events}))
    assert throughput.busy_ms(path) == 7.0
    rate = throughput.Rate("b", "links", 4, "on", "recorded", 9.0, 8.0, 8.0, 5.0, 10.0, 7.0)
    assert (rate.ratio, rate.waits) == (2.0, pytest.approx(0.3))


def test_a_step_is_timed_as_networks_grow(tmp_path, monkeypatch, capsys):
    command = "step --device cpu --layers 2 --width 16 --vocab 50 --parts tables --steps 1"
    sizes = ["--warmup", "1", "--sizes", "200", "400", "--out", str(tmp_path)]
    monkeypatch.setattr("sys.argv", [*command.split(), *sizes])
    step.main()
    assert "FAILED" not in capsys.readouterr().out
    found = json.loads((tmp_path / "step.json").read_text())["measured"]
    assert [one["what"] for one in found] == ["N 25x5x2, 200 edges", "N 25x5x2, 400 edges"]


def test_embedding_on_a_cpu_is_timed_and_compared(tmp_path, monkeypatch):
    command = "embed_cpu --edges 60 --layers 2 --width 32 --threads 1 --rounds 1"
    threads = torch.get_num_threads()
    monkeypatch.setattr("sys.argv", [*command.split(), "--out", str(tmp_path)])
    embed_cpu.main()
    torch.set_num_threads(threads)
    found = json.loads((tmp_path / "embed_cpu.json").read_text())
    assert [(one["what"], one["texts"]) for one in found] == [
        ("edges", "short"),
        ("nodes", "short"),
        ("edges", "long"),
        ("nodes", "long"),
    ]
    assert all(one["difference"] < 1e-5 and one["times_faster"] > 0 for one in found)


@pytest.mark.slow
def test_exported_models_are_compared_with_ours(tmp_path, monkeypatch):
    command = "export --backbone scratch:2x32 --edges 300 --rounds 1 --threads 1"
    monkeypatch.setattr("sys.argv", [*command.split(), "--out", str(tmp_path)])
    threads = torch.get_num_threads()
    export.main()
    torch.set_num_threads(threads)
    ways = {one["way"]: one for one in json.loads((tmp_path / "export.json").read_text())["ways"]}
    assert ways["ONNX Runtime"]["difference"] < 1e-4
    assert ways["ONNX Runtime"]["macro_f1"] == ways["ours"]["macro_f1"]
    assert ways["sentence-transformers, texts only"]["difference"] < 1e-4
    assert ways["ONNX Runtime"]["changed"] == 0
    assert 0 <= ways["ONNX Runtime, int8"]["changed"] <= 1


def test_the_time_to_the_quality_of_the_released_recipe_is_told(simulated, tmp_path, monkeypatch):
    given = ["--network", str(simulated.path), "--backbone", "scratch:2x16", "--device", "cpu"]
    monkeypatch.setattr(sys, "argv", ["x", *given, "--epochs", "1", "--out", str(tmp_path)])
    time_to_quality.main()
    found = json.loads((tmp_path / "time_to_quality.json").read_text())
    ours, released = found["recipe default"], found["released recipe"]
    assert released["epochs"] == 1
    assert ours["seconds"] is None or ours["validation"] >= released["validation"]
    assert found["padded reference"]["seconds"] > 0


@pytest.mark.slow
@pytest.mark.parametrize(("task", "metric"), [("edges", "macro_f1"), ("links", "mrr")])
def test_apps_compares_a_recipe_with_the_best_achievable(tmp_path, monkeypatch, task, metric):
    options = ["--folder", str(tmp_path), "--edges", "1000", "--backbone", "scratch:2x32"]
    monkeypatch.setattr(sys, "argv", ["apps", task, *options, "--set", "train.epochs=1"])
    apps.main()
    lines = [json.loads(line) for line in (tmp_path / f"{task}.jsonl").read_text().splitlines()]
    best = {line["what"]: line for line in lines}["best achievable"][metric]
    scores = [line.get(metric, line.get(f"full/{metric}")) for line in lines if "part" in line]
    assert len(scores) == (2 if task == "edges" else 4)
    assert 0 < max(scores) < 2 * best


def test_scale_measures_old_and_new_settings(tmp_path):
    options = ["--device", "cpu", "--edges", "600", "--backbone", "scratch:2x32", "--out"]
    more = ["--warmup", "1", "--seconds", "0", "--names", "old", "new"]
    rates = scale.main([*options, str(tmp_path), *more])
    assert [(rate.task, rate.name) for rate in rates] == [
        *(("edges", "old"), ("edges", "new"), ("links", "old"), ("links", "new"))
    ]
    assert all(rate.examples > 0 and rate.texts >= 2 * rate.examples for rate in rates)
    written = json.loads((tmp_path / "scale-training.json").read_text())
    assert [row["ratio"] for row in written["rates"]][::2] == [1, 1]
