"""Counts and small statistics over sequences of numbers."""


def total(numbers):
    """Add all numbers; an empty sequence gives 0."""
    result = 0
    for number in numbers:
        result += number
    return result


def mean(numbers):
    """Give the arithmetic mean, or None for an empty sequence."""
    numbers = list(numbers)
    if not numbers:
        return None
    return total(numbers) / len(numbers)


def median(numbers):
    """Give the middle value, or the mean of the two middle ones."""
    ordered = sorted(numbers)
    if not ordered:
        return None
    middle = len(ordered) // 2
    if len(ordered) % 2:
        return ordered[middle]
    return (ordered[middle - 1] + ordered[middle]) / 2


def running(numbers):
    """Yield the totals of ever longer beginnings."""
    result = 0
    for number in numbers:
        result += number
        yield result
