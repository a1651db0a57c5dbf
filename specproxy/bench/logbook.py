"""Long texts for long prompts: a harbour's logbook, the same for the same number. Pure.

Two logbooks share sentences, as those of one harbour do, but no entry.
"""

import random

NUM_ENTRIES = 46
"""About 2,000 tokens in all."""
_SHIPS = (
    *("Aurora", "Bonnie May", "Cormorant", "Dorothea", "Ember", "Fair Isle", "Grey Heron"),
    *("Halcyon", "Ingrid", "Juniper", "Kestrel", "Lady Jane", "Merlin", "Northern Light"),
    *("Osprey", "Petrel", "Quicksilver", "Rosalind", "Sea Thistle", "Tern", "Undine", "Vesper"),
)
_CARGOES = (
    *("salt", "timber for the new pier", "sacks of flour", "slate", "casks of cider", "wool"),
    *("coal", "a steam engine in parts", "letters and newspapers", "cheese", "two horses"),
    *("window glass", "iron rails", "apples", "lamp oil", "bricks", "dried fish", "copper wire"),
)
_WEATHERS = (
    *("light wind from the west", "fog until noon", "rain all day", "a clear sky and no wind"),
    *("a gale from the north", "snow in the evening", "warm and hazy", "hail at midday"),
    *("a steady breeze from the south", "thunder far out at sea", "frost on the ropes"),
)
_EVENTS = (
    *("The pilot was late, and the tide was lost.", "A rope broke, but nobody was hurt."),
    *("The crane had to be oiled before it would turn.", "Two sailors asked for a doctor."),
    *("The master complained about the dues and paid them.", "A seal slept on the slipway."),
    *("The lamp at the end of the mole was found dark.", "The customs officer opened one chest."),
    *("Children threw bread to the gulls on the quay.", "The anchor brought up an old chain."),
    *("A cask fell into the water and was fished out.", "The harbour clock stopped for an hour."),
    *("The cook bought potatoes from the market.", "Nothing else is worth a line."),
)


def logbook(number: int) -> str:
    """One logbook's text."""
    draw = random.Random(number)
    lines = [f"Logbook of the harbour, book {number}."]
    day = draw.randrange(1, 9)
    for _ in range(NUM_ENTRIES):
        ship, cargo = draw.choice(_SHIPS), draw.choice(_CARGOES)
        lines.append(
            f"Day {day}, {draw.randrange(4, 22)} o'clock: the {ship} came in with"
            f" {draw.randrange(2, 90)} tons of {cargo}; {draw.choice(_WEATHERS)}."
            f" {draw.choice(_EVENTS)}"
        )
        day += draw.randrange(1, 4)
    return "\n".join(lines)
