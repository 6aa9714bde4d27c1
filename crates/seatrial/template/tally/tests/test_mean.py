import pytest

from tally import mean, median


def test_mean_of_nothing_is_none():
    assert mean([]) is None


def test_mean_of_a_generator():
    assert mean(n for n in (1, 2, 3)) == 2


@pytest.mark.parametrize("numbers, middle", [([3], 3), ([3, 1, 2], 2), ([5, 1, 4, 2, 3], 3)])
def test_median_of_odd_counts(numbers, middle):
    assert median(numbers) == middle


def test_median_of_even_counts():
    assert median([4, 1, 3, 2]) == 2.5


def test_median_of_nothing_is_none():
    assert median([]) is None
