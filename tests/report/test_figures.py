from edgeformers.data.card.card import Histogram
from edgeformers.report.figures import (
    COLORS,
    LineChart,
    NodeMap,
    histogram_chart,
    legend,
    survival_chart,
    timeline_chart,
)


def test_a_histogram_names_its_bins_and_marks_values_on_its_axis():
    data = Histogram([0.0, 32.0, 64.0, 96.0], [5, 2, 1], is_open=True)
    chart = histogram_chart(data, "lengths", "tokens", "texts", (64.0, "64 tokens"))
    assert chart.tips == [
        "0 to 31 tokens: 5 texts",
        "32 to 63 tokens: 2 texts",
        "64 or more tokens: 1 texts",
    ]
    assert (chart.mark, chart.open_end) == ((64.0, "64 tokens"), "64+")
    assert histogram_chart(data, "lengths", "tokens", "texts", (200.0, "200")).mark is None


def test_a_survival_chart_counts_from_above():
    chart = survival_chart(Histogram([1.0, 2.0, 3.0, 4.0], [6, 3, 1]), "degrees", "nodes")
    assert chart.lines[""] == [[(1.0, 10.0), (2.0, 4.0), (3.0, 1.0)]]
    assert chart.tip("", 2.0, 4.0) == "at least 2: 4 nodes (40%)"


def test_a_timeline_names_its_first_middle_and_last_period():
    chart = timeline_chart(["a", "b", "c", "d", "e"], [1, 2, 3, 4, 5], "week", "x")
    assert chart.ticks == {0.5: "a", 2.5: "c", 4.5: "e"}
    assert timeline_chart(["a", "b"], [1, 2], "week", "x").ticks == {0.5: "a", 1.5: "b"}


def test_a_legend_repeats_the_colors_of_lines_and_nodes():
    names = [f"run {n}" for n in range(9)]
    keys = legend(LineChart(label="x", lines={name: [] for name in names}))
    assert keys == list(zip(names, [*COLORS, COLORS[0]], strict=True))
    nodes = NodeMap(title="x", names=["a"], nodes=[[0, 0]], edges=[], ends=[])
    assert legend(nodes) == [("a", COLORS[0])]
    assert legend(LineChart(label="x", lines={"": []})) == []
