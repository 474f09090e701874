import os
import signal
import sys
from functools import partial

import numpy as np
import pandas as pd
import pytest

from edgeformers.data.graph import EdgeTextGraph
from edgeformers.data.network import PrepareConfig
from edgeformers.data.prepare import prepare_simulated
from edgeformers.errors import EdgeformersError, InputError, MissingExtraError
from edgeformers.estimators import EdgeClassifier, LinkPredictor, load
from edgeformers.inference import batch_inference, chunks
from edgeformers.inference import embed as embedding
from edgeformers.inference.batch_inference import write_recommendations
from edgeformers.inference.embed import embed
from edgeformers.inference.ray_engine import _Actor

SETTINGS = {"train.epochs": 1, "data.max_tokens": 16}
LINKS = {**SETTINGS, "data.source_neighbors": [2], "data.target_neighbors": [2]}


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A network, and a run of each kind on it."""
    folder = tmp_path_factory.mktemp("runs")
    config = PrepareConfig(tokenizer="train:300", progress=False)
    graph = prepare_simulated(folder / "network", num_edges=300, config=config)
    tasks = ((EdgeClassifier, "edges", SETTINGS), (LinkPredictor, "links", LINKS))
    for kind, run, settings in tasks:
        estimator = kind("scratch:2x32", recipe="fast", settings=settings, show=False)
        estimator.fit(graph, run=folder / run)
    return folder


@pytest.fixture(scope="module")
def cluster():
    """A Ray cluster of two cores within this machine."""
    ray = pytest.importorskip("ray")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("OMP_NUM_THREADS", "1")  # hence two actors
        ray.init(
            num_cpus=2,
            object_store_memory=100 << 20,
            include_dashboard=False,
            log_to_driver=False,
            logging_level="ERROR",
        )
        yield ray
        ray.shutdown()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of Ray
def test_ray_writes_the_same_bytes_as_this_process(home, tmp_path, cluster):
    for what, run in (("edges", "edges"), ("nodes", "links")):
        here, there = tmp_path / f"{what}.parquet", tmp_path / f"{what}-ray.parquet"
        embed(home / run, what=what, out=here, chunk=20, show=False)
        embed(home / run, what=what, out=there, chunk=20, engine="ray", show=False)
        assert there.read_bytes() == here.read_bytes()
    assert cluster.is_initialized()  # a cluster that was there before stays


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of Ray
def test_an_actor_killed_midway_changes_nothing(home, tmp_path, cluster, monkeypatch):
    here, there = tmp_path / "here.parquet", tmp_path / "there.parquet"
    embed(home / "edges", what="edges", out=here, chunk=20, show=False)
    dying = partial(open_dying_job, embedding._open_job, tmp_path / "killed-embed")
    monkeypatch.setattr(embedding, "_open_job", dying)
    embed(home / "edges", what="edges", out=there, chunk=20, engine="ray", show=False)
    assert (tmp_path / "killed-embed").exists()
    assert there.read_bytes() == here.read_bytes()

    here, there = tmp_path / "here.csv", tmp_path / "there.csv"
    count = write_recommendations(home / "links", here, 3, chunk=2, show=False)
    opened = batch_inference._open_recommender
    dying = partial(open_dying_job, opened, tmp_path / "killed-recommend")
    monkeypatch.setattr(batch_inference, "_open_recommender", dying)
    options = {"chunk": 2, "engine": "ray", "show": False}
    assert write_recommendations(home / "links", there, 3, **options) == count
    assert (tmp_path / "killed-recommend").exists()
    assert there.read_bytes() == here.read_bytes()
    assert not list(tmp_path.glob(".*"))


def open_dying_job(open_job, marker, *args, **options):
    """A job whose third chunk kills the process the first time; the caller never computes."""
    job = open_job(*args, **options)
    compute = job.compute

    def compute_or_die(number, *, show=False):
        if number == 2:
            try:
                marker.touch(exist_ok=False)
            except FileExistsError:
                return compute(number, show=show)
            os.kill(os.getpid(), signal.SIGKILL)
        return compute(number, show=show)

    job.compute = compute_or_die
    return job


def test_a_missing_ray_is_named_with_its_install_command(home, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError, match=r"edgeformers\[ray\]"):
        embed(home / "edges", what="edges", out=tmp_path / "v.parquet", engine="ray", show=False)
    with pytest.raises(MissingExtraError, match=r"edgeformers\[ray\]"):
        write_recommendations(home / "links", tmp_path / "r.csv", engine="ray", show=False)
    assert not list(tmp_path.iterdir())


def test_ray_needs_the_folder_of_a_run(home, tmp_path):
    model = load(home / "edges")
    with pytest.raises(InputError, match="folder of a run"):
        embed(model, what="edges", out=tmp_path / "v.parquet", engine="ray", show=False)
    with pytest.raises(InputError, match="spark"):
        embed(model, what="edges", out=tmp_path / "v.parquet", engine="spark", show=False)
    with pytest.raises(InputError, match="classifies edges"):
        write_recommendations(home / "edges", tmp_path / "r.csv", show=False)


def test_an_actor_returns_errors_as_sentences(home):
    def open_job():
        raise InputError("the run is gone")

    assert _Actor(open_job, "")({"chunk": np.array([3])})["error"] == ["the run is gone"]
    options = {"k": 3, "exclude_seen": True, "candidates": None, "all_edges": False, "chunk": 100}
    here = batch_inference._open_recommender(home / "links", None, "cpu", **options)
    other = _Actor(lambda: here, "of another run")
    assert "storage" in other({"chunk": np.array([0])})["error"][0]
    same = _Actor(lambda: here, here.identity)({"chunk": np.array([0])})
    assert (same["error"], same["chunk"]) == ([""], [0])


def test_interrupted_recommendations_continue(home, tmp_path, monkeypatch):
    whole, cut = tmp_path / "whole.parquet", tmp_path / "cut.parquet"
    write_recommendations(home / "links", whole, 3, chunk=2, show=False)
    ranked, rank = [], batch_inference._Recommender.rank

    def rank_and_stop(self, sources):
        if len(ranked) == 2:
            raise KeyboardInterrupt
        ranked.append(sources)
        return rank(self, sources)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batch_inference._Recommender, "rank", rank_and_stop)
        with pytest.raises(KeyboardInterrupt):
            write_recommendations(home / "links", cut, 3, chunk=2, show=False)
    assert len(list((tmp_path / ".cut.parquet.parts").glob("0*.parquet"))) == 2
    later = []
    monkeypatch.setattr(
        batch_inference._Recommender,
        "rank",
        lambda self, sources: later.append(sources) or rank(self, sources),
    )
    write_recommendations(home / "links", cut, 3, chunk=2, show=False)
    sources = EdgeTextGraph.open(home / "network").num_sources
    assert [node for block in (*ranked, *later) for node in block] == list(range(sources))
    assert cut.read_bytes() == whole.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cut.parquet", "whole.parquet"]


def test_chunks_of_other_recommendations_are_not_used(home, tmp_path, monkeypatch):
    out = tmp_path / "r.csv"
    monkeypatch.setattr(batch_inference, "write_rows", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        write_recommendations(home / "links", out, 3, show=False)
    monkeypatch.undo()
    count = write_recommendations(home / "links", out, 2, show=False)
    ranks = pd.read_csv(out)["rank"]
    assert len(ranks) == count
    assert set(ranks) == {1, 2}


def test_a_lost_cluster_is_one_sentence(home, tmp_path, monkeypatch):
    ray = pytest.importorskip("ray")
    monkeypatch.setattr(ray, "is_initialized", lambda: False)

    def refuse(**_):
        raise ConnectionError("no cluster at 10.0.0.1\nand a traceback")

    monkeypatch.setattr(ray, "init", refuse)
    with pytest.raises(EdgeformersError, match=r"no cluster at 10.0.0.1\)"):
        embed(home / "edges", what="edges", out=tmp_path / "v.parquet", engine="ray", show=False)


def test_torchrun_and_ray_are_not_combined(monkeypatch):
    monkeypatch.setattr(chunks.distributed, "world_size", lambda: 2)
    with pytest.raises(InputError, match="torchrun"):
        chunks.is_ray("ray")
