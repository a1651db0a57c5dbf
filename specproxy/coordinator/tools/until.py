"""Text that does not hold a literal, as a grammar: the automaton of Knuth, Morris and Pratt."""

from specproxy.coordinator.schema.rules import Rules

_ESCAPED = {"\n": r"\n", "\\": r"\\", "]": r"\]", "[": r"\[", "-": r"\-"}


def add_until(rules: Rules, marker: str, name: str = "until") -> str:
    """Add all texts without `marker`, the empty one too; the rule's name."""
    alphabet = sorted(set(marker))

    def state_name(state: int) -> str:
        return f"{name}-{state:02}" if state else name

    for state in range(len(marker)):
        alternatives = [""]
        specific = []
        for character in alphabet:
            following = _following(marker, marker[:state] + character)
            if not following:
                continue
            specific.append(character)
            if following < len(marker):
                alternatives.append(f" {_class(character)} {state_name(following)}")
        alternatives.append(f" {_class(''.join(specific), negated=True)} {name}")
        rules.add(state_name(state), " |".join(alternatives).strip())
    return name


def _following(marker: str, seen: str) -> int:
    """How much of `marker` the end of `seen` is."""
    return next(
        length
        for length in range(min(len(marker), len(seen)), -1, -1)
        if seen.endswith(marker[:length])
    )


def _class(characters: str, *, negated: bool = False) -> str:
    escaped = "".join(_ESCAPED.get(one, one) for one in characters)
    return f"[{'^' if negated else ''}{escaped}]"
