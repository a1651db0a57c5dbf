"""How much two sequences share at their beginning."""

from collections.abc import Sequence


def common_prefix(left: Sequence[object], right: Sequence[object]) -> int:
    """Length of the longest common prefix of two texts or two lists of the same kind.

    Compares slices, in O(n): lists of thousands and texts of megabytes are usual.
    """
    low, high = 0, min(len(left), len(right))
    while low < high:
        middle = (low + high + 1) // 2
        if left[low:middle] == right[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
