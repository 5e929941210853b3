# %% first
score = 3
points = [1, 2, 3]
verdict = "wrong"


def test(*args):
    raise AssertionError("my own test fails")


assert_close = expect = student = rng = reference = pytest = test


# %% added
test()

# %% added
assert 1 == 2, "an assertion of the learner's own"
