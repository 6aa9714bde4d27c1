from slugs import slug


def test_words_are_joined_by_dashes():
    assert slug("The Quick  Brown Fox") == "the-quick-brown-fox"


def test_accents_are_dropped():
    assert slug("Crème brûlée") == "creme-brulee"


def test_punctuation_at_the_ends_leaves_no_dash():
    assert slug("  Ready? Set! ") == "ready-set"


def test_a_limit_cuts_at_a_dash():
    assert slug("one two three", limit=7) == "one-two"
    assert slug("one two three", limit=9) == "one-two"


def test_a_long_word_is_cut_anywhere():
    assert slug("abcdefgh", limit=5) == "abcde"
