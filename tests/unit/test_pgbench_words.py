"""Which outputs the comparison of pgdrive with an installed pgbench treats as equal, and which not."""

import pytest

from tests.postgres.pgbench_words import KNOWN, assert_same_words

KNOWN_VERSION = (15, KNOWN[15])
UNKNOWN_VERSION = (15, KNOWN[15] + 1)
OURS = 'pgbench: error: invalid value "x" for option -c/--client\npgbench: hint: Try "pgbench --help".'


def test_old_and_new_words_are_the_same() -> None:
    for version in ((15, 18), KNOWN_VERSION, UNKNOWN_VERSION, (16, 0)):
        assert_same_words(OURS, OURS, version)
        assert_same_words(OURS, OURS.replace("--client", "--clients"), version)
    # unknown words are the same in an unknown version only
    reworded = OURS.replace("invalid value", "bad value")
    assert_same_words(OURS, reworded, UNKNOWN_VERSION)
    with pytest.raises(AssertionError):
        assert_same_words(OURS, reworded, KNOWN_VERSION)
    for another in (
        OURS.replace('"x"', '"y"'),
        OURS.replace("error", "warning"),
        OURS.replace("hint: ", ""),
        OURS.partition("\n")[0],
        f"{OURS} 128",
    ):
        with pytest.raises(AssertionError):
            assert_same_words(OURS, another, UNKNOWN_VERSION)
