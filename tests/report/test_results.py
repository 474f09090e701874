from edgeformers.report import results


def test_every_public_name_is_found_in_one_place():
    assert all(hasattr(results, name) for name in results.__all__)
    for name in ("ResultsPage", "learning_curve", "results_html", "results_text", "verdict"):
        assert name in results.__all__
