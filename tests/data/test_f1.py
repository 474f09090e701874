import numpy as np

from edgeformers.data.f1 import f1, f1_of_confusion


def test_f1_of_a_confusion_table_worked_by_hand():
    counts = np.array([[3.0, 1.0, 0.0], [2.0, 4.0, 0.0], [0.0, 0.0, 0.0]])
    np.testing.assert_allclose(f1_of_confusion(counts), [6 / 9, 8 / 11, np.nan])
    np.testing.assert_allclose(f1_of_confusion(counts[None]), [[6 / 9, 8 / 11, np.nan]])


def test_a_class_that_is_missed_has_f1_zero_and_an_absent_one_none():
    np.testing.assert_array_equal(f1([0, 0, 2], [3, 0, 4]), [0, np.nan, 1])
