"""Which outputs the comparison of pgdrive with an installed pgbench treats as equal, and which not."""

import pytest

from tests.postgres.pgbench_words import KNOWN, assert_same_words

KNOWN_VERSION = (15, KNOWN[15])
UNKNOWN_VERSION = (15, KNOWN[15] + 1)
OURS = 'pgbench: error: invalid value "x" for option -c/--client\npgbench: hint: Try "pgbench --help".'


@pytest.mark.parametrize(
    "version", [(15, 18), KNOWN_VERSION, UNKNOWN_VERSION, (16, 0)], ids=lambda version: f"{version[0]}.{version[1]}"
)
def test_old_and_new_words_are_the_same(version: tuple[int, int]) -> None:
    assert_same_words(OURS, OURS, version)
    assert_same_words(OURS, OURS.replace("--client", "--clients"), version)


def test_unknown_words_are_the_same_in_an_unknown_version_only() -> None:
    reworded = OURS.replace("invalid value", "bad value")
    assert_same_words(OURS, reworded, UNKNOWN_VERSION)
    with pytest.raises(AssertionError):
        assert_same_words(OURS, reworded, KNOWN_VERSION)


@pytest.mark.parametrize(
    "theirs",
    [
        OURS.replace('"x"', '"y"'),
        OURS.replace("error", "warning"),
        OURS.replace("hint: ", ""),
        OURS.partition("\n")[0],
        f"{OURS} 128",
    ],
    ids=["another value", "another kind", "no kind", "a line less", "a number more"],
)
def test_different_meanings_are_never_equal(theirs: str) -> None:
    with pytest.raises(AssertionError):
        assert_same_words(OURS, theirs, UNKNOWN_VERSION)
