from tally import running, total


def test_total():
    assert total([1, 2, 3]) == 6
    assert total([]) == 0


def test_running_totals():
    assert list(running([1, 2, 3])) == [1, 3, 6]


def test_running_over_nothing():
    assert list(running([])) == []
