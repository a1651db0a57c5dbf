"""Integers between bounds, as a grammar of digits."""


def integer_range(minimum: int | None, maximum: int | None) -> str:
    """The grammar's expression; one of the bounds must be there."""
    pieces: list[str] = []
    _build(minimum, maximum, pieces, 16, top_level=True)
    return "".join(pieces)


def _build(
    minimum: int | None, maximum: int | None, out: list[str], num_left: int, *, top_level: bool
) -> None:
    if minimum is not None and maximum is not None:
        _between(minimum, maximum, out, num_left)
    elif minimum is not None:
        _at_least(minimum, out, num_left, top_level=top_level)
    elif maximum is not None and maximum >= 0:
        if top_level:
            out.append(f'"-" [1-9] {_digits(0, max(num_left - 1, 1))} | ')
        _between(0, maximum, out, num_left)
    elif maximum is not None:
        out.append('"-" (')
        _at_least(-maximum, out, num_left, top_level=False)
        out.append(")")


def _between(minimum: int, maximum: int, out: list[str], num_left: int) -> None:
    if minimum < 0 and maximum < 0:
        out.append('"-" (')
        _between(-maximum, -minimum, out, num_left)
        out.append(")")
        return
    if minimum < 0:
        out.append('"-" (')
        _between(0, -minimum, out, num_left)
        out.append(") | ")
        minimum = 0
    low, high = str(minimum), str(maximum)
    for num_digits in range(len(low), len(high)):
        _uniform(low, "9" * num_digits, out)
        low = "1" + "0" * num_digits
        out.append(" | ")
    _uniform(low, high, out)


def _at_least(minimum: int, out: list[str], num_left: int, *, top_level: bool) -> None:
    fewer = max(num_left - 1, 1)
    first = "1" if top_level else "0"
    if minimum < 0:
        out.append('"-" (')
        _build(None, -minimum, out, num_left, top_level=False)
        out.append(f") | [0] | [1-9] {_digits(0, num_left - 1)}")
    elif minimum == 0:
        out.append(f"[0] | [1-9] {_digits(0, fewer)}" if top_level else _digits(1, num_left))
    elif minimum <= 9:
        digit = str(minimum)
        if digit > first:
            out.append(f"{_range(first, _before(digit))} {_digits(1, fewer)} | ")
        out.append(f"{_range(digit, '9')} {_digits(0, fewer)}")
    else:
        text = str(minimum)
        digit, num_digits = text[0], len(text)
        if digit > "1":
            out.append(f"{_range(first, _before(digit))} {_digits(num_digits, fewer)} | ")
        out.append(f"{_range(digit, digit)} (")
        _at_least(int(text[1:]), out, fewer, top_level=False)
        out.append(")")
        if digit < "9":
            out.append(f" | {_range(_after(digit), '9')} {_digits(num_digits - 1, fewer)}")


def _uniform(low: str, high: str, out: list[str]) -> None:
    """Numbers of as many digits as `low` and `high` have, between them."""
    at = 0
    while at < len(low) and low[at] == high[at]:
        at += 1
    if at:
        out.append(f'"{low[:at]}"')
    if at == len(low):
        return
    if at:
        out.append(" ")
    first, last = low[at], high[at]
    low_rest, high_rest = low[at + 1 :], high[at + 1 :]
    num_rest = len(low_rest)
    if not num_rest:
        out.append(f"[{first}-{last}]")
        return
    zeros, nines = "0" * num_rest, "9" * num_rest
    reached = False
    out.append("(")
    if low_rest == zeros:
        out.append(f"{_range(first, _before(last))} {_digits(num_rest, num_rest)}")
    else:
        out.append(f"[{first}] (")
        _uniform(low_rest, nines, out)
        out.append(")")
        if first < _before(last):
            reached = high_rest == nines
            middle = last if reached else _before(last)
            out.append(f" | {_range(_after(first), middle)} {_digits(num_rest, num_rest)}")
    if not reached:
        out.append(f" | {_range(last, last)} ")
        _uniform(zeros, high_rest, out)
    out.append(")")


def _digits(least: int, most: int) -> str:
    if least == most == 1:
        return "[0-9]"
    return f"[0-9]{{{least}}}" if least == most else f"[0-9]{{{least},{most}}}"


def _range(first: str, last: str) -> str:
    return f"[{first}]" if first == last else f"[{first}-{last}]"


def _before(digit: str) -> str:
    return chr(ord(digit) - 1)


def _after(digit: str) -> str:
    return chr(ord(digit) + 1)
