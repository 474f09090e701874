import pytest

from edgeformers.config import make_config
from edgeformers.estimators import run_config
from edgeformers.experiments.memory import MOST_JOBS, default_jobs, jobs_that_fit, memory_of

GB = 1e9


@pytest.mark.parametrize(
    ("free", "cores", "needs", "jobs"),
    [
        (140 * GB, 16, [10 * GB] * 20, MOST_JOBS),
        (40 * GB, 16, [10 * GB] * 20, 3),  # a fifth of the memory is left free
        (40 * GB, 16, [2 * GB, 30 * GB], 1),
        (8 * GB, 16, [10 * GB], 1),
        (140 * GB, 4, [GB] * 20, 2),
        (140 * GB, 16, [GB] * 3, 3),
    ],
)
def test_as_many_run_side_by_side_as_the_largest_allows(free, cores, needs, jobs):
    assert jobs_that_fit(free, cores, needs) == jobs


def test_a_larger_model_more_texts_and_more_nodes_need_more():
    settings = {"model.backbone": "scratch:2x64"}
    small = make_config("edge-classification", settings=settings)
    needs = memory_of(small, 100)
    assert memory_of(small, 10_000_000) > needs
    assert memory_of(make_config("link-prediction", settings=settings), 100) > needs
    larger = {"model.backbone": "scratch:12x768"}
    assert memory_of(make_config("edge-classification", settings=larger), 100) > 2 * needs


def test_texts_that_are_read_around_an_edge_or_twice_are_counted():
    def texts(**settings):
        given = {"model.backbone": "scratch:2x64", "edges.rdrop": 0.0, **settings}
        return memory_of(run_config("edge-classification", settings=given), 0) - fixed

    plain = {"model.name": "bert"}
    fixed = 0.0
    fixed = 2 * texts(**plain) - texts(**plain, **{"train.batch_size": 128})
    once = texts(**plain)
    assert once > 0
    assert texts(**plain, **{"edges.rdrop": 1.0}) == pytest.approx(2 * once)
    assert texts(**{"model.name": "bert-max-sage"}) == pytest.approx(9 * once)  # four at each end


def test_on_a_cpu_runs_come_one_by_one(tiny_plan, simulated):
    assert default_jobs(tiny_plan("bert", "edgeformer-e"), simulated) == 1
