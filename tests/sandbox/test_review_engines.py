"""A workspace under review in each engine, from a run to what is taken over."""

import re

import pytest
from test_review import Review, commit, stamps


@pytest.fixture
def review(sandbox):
    return Review(sandbox, sandbox.engine)


def test_a_review_works_in_every_engine(review):
    for name in ("changed", "deleted", "sub/file"):
        review.file(name, "0\n")
    review.repository()
    before = stamps(review.work)
    done = review.agent("echo 1 >> changed; rm deleted; mkdir -p new/er; echo n > new/er/n; rm -r sub; mkdir sub; echo s > sub/s;"
                        "test -d .git/hooks; echo x > .git/hooks/x;" + commit("two"), quiet=False)  # fmt: skip
    kind = "a copy of" if review.engine == "docker" else "an overlay over"
    assert re.search(rf"review [0-9a-f]{{8}}: {kind} ", done.stderr), done.stderr
    assert stamps(review.work) == before
    assert review.stat()[:-1] == ["M  changed", "D  deleted", "A  new/", "A  new/er/", "A  new/er/n", "D  sub/file", "A  sub/s"]
    assert review.agent("cat changed new/er/n sub/s; ls; echo 2 >> changed").stdout == "0\n1\nn\ns\nchanged\nnew\nsub\n"
    review.apply(check=1)  # the commits, and no file yet
    review.apply()
    assert review.contents() == {"changed": "0\n1\n2\n", "new/er/n": "n\n", "sub/s": "s\n"}
    assert review.git("for-each-ref", "--format=%(refname:lstrip=3)", "refs/keyhole").split() == ["HEAD", "heads/main"]
    review.verb("discard")
    assert review.reviews() == []
