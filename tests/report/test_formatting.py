import pytest

from edgeformers.report.formatting import (
    compact_number,
    format_duration,
    format_number,
    format_setting,
    format_value,
    metric_name,
    printable,
    time_unit,
)


def test_control_and_direction_characters_are_removed():
    assert printable("a\x1b[31mb\u202ec\nd\x00") == "a[31mbcd"
    for text in ("naïve café", "良い", "می\u200cخواهم", "👩\u200d🚀"):
        assert printable(text) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1204, "1,204"),
        (3.0, "3"),
        (0.12345, "0.1235"),
        (-0.5, "-0.5"),
        (1234.5, "1,234"),
        (1e20, "1e+20"),
    ],
)
def test_numbers_are_integers_or_have_four_digits(value, text):
    assert format_number(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0"), (999, "999"), (1200, "1.2k"), (5e6, "5M"), (2.5e9, "2.5G")]
)
def test_axis_numbers_are_short(value, text):
    assert compact_number(value) == text


@pytest.mark.parametrize(
    ("metric", "name", "value"),
    [
        ("macro_f1", "Macro-F1", "12.3"),
        ("full/mrr", "MRR (full)", "0.123"),
        ("paper/hit@10", "Hit@10 (paper)", "12.3"),
        ("ndcg", "NDCG", "0.123"),
        ("mae", "MAE", "0.1234"),
        ("average_precision", "average_precision", "0.123"),
    ],
)
def test_metrics_have_their_usual_names_and_scales(metric, name, value):
    assert metric_name(metric) == name
    assert format_value(0.1234, metric) == value


def test_unset_settings_are_a_dash():
    assert [format_setting(v) for v in (None, "", "fast", 5e-5, [1, 2])] == [
        "–",
        "–",
        "fast",
        "5e-05",
        "[1, 2]",
    ]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.042, "0.042 s"), (12.4, "12 s"), (179, "179 s"), (186, "3.1 min"), (18720, "5.2 h")],
)
def test_durations_have_a_readable_unit(seconds, text):
    assert format_duration(seconds) == text


def test_an_axis_of_durations_has_one_unit():
    units = [time_unit(longest)[1] for longest in (0, 179, 180, 3 * 3600)]
    assert units == ["second", "second", "minute", "hour"]
