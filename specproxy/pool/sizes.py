"""Numbers of bytes and parameters, for people."""

GIB = 2**30


def bytes_text(count: int) -> str:
    """`1.5 GiB`."""
    for unit, size in (("GiB", GIB), ("MiB", 2**20), ("KiB", 2**10)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} B"


def count_text(number: int) -> str:
    """`1.54 B`, in billions and millions."""
    for unit, size in (("B", 10**9), ("M", 10**6)):
        if number >= size:
            return f"{number / size:.2f} {unit}"
    return str(number)
