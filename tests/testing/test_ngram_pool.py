"""The pool against cases worked out by hand from common/speculative.cpp."""

from specproxy.testing import NgramPool

A, B, C, D, E, F = 1, 2, 3, 4, 5, 6


def pool(n_match: int = 2, n_min: int = 1, n_max: int = 8) -> NgramPool:
    return NgramPool(n_match, n_min, n_max)


def test_the_hash_is_the_original_one() -> None:
    assert pool().index([1, 2]) == (6364136223846793005 + 2) % (4 * 1024 * 1024)
    assert NgramPool(3, size=1000).index([1, 2, 3]) == (
        ((6364136223846793005 + 2) * 6364136223846793005 + 3) % 2**64 % 1000
    )


def test_a_prompt_seeds_what_follows_each_key() -> None:
    seeded = pool()
    seeded.begin(0, [A, B, C, D, E])
    assert seeded.num_used == 3
    assert seeded.get([A, B]) == C
    assert seeded.get([C, D]) == E
    assert seeded.get([D, E]) is None


def test_another_slot_drafts_what_was_seeded() -> None:
    seeded = pool()
    seeded.begin(1, [A, B, C, D, E])
    assert seeded.draft(0, [F, A], B) == [C, D, E]
    assert seeded.draft(0, [F, B], C) == [D, E]
    assert seeded.draft(0, [F, B], A) == []


def test_a_prompt_as_long_as_the_key_adds_nothing() -> None:
    seeded = pool()
    seeded.begin(0, [A, B])
    seeded.begin(0, [A])
    assert seeded.num_used == 0


def test_the_last_token_is_not_yet_in_the_tokens() -> None:
    seeded = pool()
    seeded.begin(1, [A, B, C])
    assert seeded.draft(0, [A, B], B) == []
    assert seeded.draft(0, [B, A], B) == [C]


def test_shorter_contexts_than_the_key_draft_nothing() -> None:
    seeded = pool(n_match=3)
    seeded.begin(1, [A, B, C, D])
    assert seeded.draft(0, [A, B], C) == []
    assert seeded.draft(0, [F, A, B], C) == [D]


def test_chains_below_n_min_are_dropped_and_n_max_ends_them() -> None:
    short = pool(n_min=3)
    short.begin(1, [A, B, C, D])
    assert short.draft(0, [A, A], B) == []
    short.begin(1, [A, B, C, D, E])
    assert short.draft(0, [A, A], B) == [C, D, E]
    long = pool(n_max=2)
    long.begin(1, [A, B, C, D, E])
    assert long.draft(0, [A, A], B) == [C, D]


def test_a_later_seed_replaces_the_continuation() -> None:
    seeded = pool()
    seeded.begin(1, [A, B, C])
    seeded.begin(1, [A, B, D])
    assert seeded.draft(0, [A, A], B) == [D]


def test_generated_text_is_added_only_after_32_positions() -> None:
    own = pool()
    prompt = list(range(100, 110))
    own.begin(0, prompt)
    assert own.num_used == 8
    grown = prompt + list(range(200, 230))
    own.draft(0, grown, 1)  # last added 8, length 40: 8 + 32 is not below 40
    assert own.num_used == 8
    own.draft(0, [*grown, 230], 1)
    assert own.num_used == 39
    assert own.get([228, 229]) == 230


def test_five_poor_rounds_in_a_row_empty_the_pool() -> None:
    seeded = pool()
    block = [A, B, C, D, E, F]
    seeded.begin(1, block)
    for _ in range(4):
        assert seeded.draft(0, [F, A], B) == [C, D, E, F]
        seeded.accept(0, 0)
    seeded.draft(0, [F, A], B)
    seeded.accept(0, 1)  # a quarter is enough
    assert seeded.num_used == 4
    for _ in range(5):
        seeded.draft(0, [F, A], B)
        seeded.accept(0, 0)
    assert seeded.num_used == 0
    assert seeded.num_resets == 1


def test_rounds_of_other_slots_and_empty_rounds_do_not_count() -> None:
    seeded = pool()
    seeded.begin(9, [A, B, C])
    for _ in range(4):
        seeded.draft(0, [F, A], B)
        seeded.accept(0, 0)
    seeded.draft(1, [F, A], B)
    seeded.accept(1, 0)
    seeded.draft(0, [F, C], C)
    seeded.accept(0, 0)
    assert seeded.num_used == 1


def test_a_quarter_full_pool_is_emptied_by_the_next_prompt() -> None:
    small = NgramPool(1, 1, 4, size=16)
    small.begin(0, [1, 2, 3, 4, 5])
    assert small.num_used == 4
    small.begin(0, [5, 6, 7])
    assert small.num_used == 0


def test_different_keys_may_collide_and_keys_are_not_compared() -> None:
    tiny = NgramPool(1, 1, 1, size=4)
    tiny.add([1, 9])
    assert tiny.get([5]) == 9
