"""Intervals of time: their union, what one set leaves of another, and the partition of a step."""

# A moment that is in spans of several kinds counts for the first of them.
ORDER = ("exposed", "optimizer", "input", "compute")


def union(spans, begin, end):
    """Sorted disjoint intervals that cover the same moments between begin and end."""
    merged = []
    for a, b in sorted((max(a, begin), min(b, end)) for a, b in spans):
        if b <= a:
            continue
        if merged and a <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], b)
        else:
            merged.append([a, b])
    return merged


def length(merged):
    return sum(b - a for a, b in merged)


def partition(spans, begin, end):
    """{kind: microseconds} of the interval by ORDER; "rest" is what no span covers. They sum to end - begin.

    spans: (kind, begin, end).
    """
    parts, covered, total = {}, [], 0.0
    for kind in ORDER:
        covered = covered + [(a, b) for k, a, b in spans if k == kind]
        now = length(union(covered, begin, end))
        parts[kind] = now - total
        total = now
    parts["rest"] = (end - begin) - total
    return parts
