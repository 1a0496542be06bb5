"""Which folder a review is of: whoever may write to a folder above it can put another one, or a
link, in its place. `keyhole workspace` then writes nowhere.
"""

import json
import os
import subprocess

import pytest
from conftest import PATIENCE
from test_review import Review


@pytest.fixture
def engine():
    return "process"


@pytest.fixture
def review(sandbox):
    """The workspace is p/work, and whoever it belongs to may rename p."""
    made = Review(sandbox)
    sandbox.folder("p")
    made.work = sandbox.folder("p/work")
    return made


def above(review):
    return os.path.dirname(review.work)


@pytest.fixture
def elsewhere(review):
    review.sandbox.folder("elsewhere")
    return review.sandbox.folder("elsewhere/work")


def put_a_link(review, elsewhere):
    os.rename(above(review), above(review) + ".moved")
    os.symlink(os.path.dirname(elsewhere), above(review))


def put_a_folder(review, elsewhere):
    os.rename(above(review), above(review) + ".moved")
    os.rename(os.path.dirname(elsewhere), above(review))


def put_back(review):
    if os.path.islink(above(review)):
        os.unlink(above(review))
    else:
        os.rename(above(review), above(review) + ".other")
    os.rename(above(review) + ".moved", above(review))


@pytest.mark.parametrize("put", [put_a_link, put_a_folder])
def test_nothing_is_taken_over_where_another_folder_is_in_its_place(review, elsewhere, put):
    review.agent("echo new > job")
    put(review, elsewhere)
    for words in (["diff"], ["apply"], ["apply", "job"]):
        done = review.verb(words[0], "--review", review.reviews()[0], *words[1:], check=1, cwd="/")
        assert b"on the way to it" in done.stderr or b"is not the folder any more" in done.stderr, done
    assert os.listdir(review.work) == []
    put_back(review)
    review.apply()
    assert review.contents() == {"job": "new\n"}


def test_another_run_does_not_go_on_in_another_folder(review, elsewhere):
    review.agent("echo new > job")
    put_a_folder(review, elsewhere)
    done = review.agent("echo more > job", how=f"review={review.reviews()[0]}", check=None)
    assert done.returncode != 0 and "is not the folder any more" in done.stderr, done


def test_an_apply_stays_in_the_folder_that_it_began_in(review, elsewhere):
    """Somebody waits for the first file, and then exchanges the folder above for a link."""
    review.agent("for i in $(seq 1000 1600); do echo x > job$i; done")
    waiting = f"""
cd {os.path.dirname(above(review))}
while [ -z "$(ls p/work)" ]; do :; done
mv p p.moved && ln -s {os.path.dirname(elsewhere)} p
"""
    other = subprocess.Popen(["timeout", str(PATIENCE), "sh", "-c", waiting])
    try:
        done = review.verb("apply", check=None)
    finally:
        other.wait()
    assert os.path.islink(above(review)), done
    assert os.listdir(elsewhere) == []
    assert done.returncode == 0, done
    assert len(os.listdir(above(review) + ".moved/work")) == 601


def test_commits_go_to_the_repository_that_the_apply_began_in(review, elsewhere):
    review.file("f", "one\n")
    review.repository()
    subprocess.run(review.sandbox.as_identity(["git", "init", "-q", elsewhere]), check=True)
    review.agent("git -c user.name=b -c user.email=b@c commit -q --allow-empty -m two")
    wrapper = review.sandbox.file(
        os.path.join(review.sandbox.folder("bin"), "git"),
        f"""#!/bin/sh
case " $* " in *" index-pack "*)
    cd {os.path.dirname(above(review))} && mv p p.moved && ln -s {os.path.dirname(elsewhere)} p ;;
esac
cd / && exec /usr/bin/git "$@"
""", 0o755)  # fmt: skip
    env = review.run_.environment()
    env["PATH"] = os.path.dirname(wrapper) + ":" + env["PATH"]
    done = subprocess.run(
        review.sandbox.as_identity([review.run_.keyhole, "workspace", "apply", "--only-commits"]), capture_output=True,
        timeout=PATIENCE, check=False, cwd=review.work, env=env,
    )  # fmt: skip
    assert os.path.islink(above(review)), done
    assert not os.path.exists(os.path.join(elsewhere, ".git/refs/keyhole")), done
    assert os.path.exists(above(review) + ".moved/work/.git/refs/keyhole"), done
    assert done.returncode == 0, done


@pytest.mark.parametrize("other, known", [({"dev": 1}, True), ({"born_s": 1}, True), ({"dev": 1, "born_s": 1}, False),
                                          ({"dev": 1, "born_s": 0, "born_ns": 0}, False), ({"ino": 1}, False)])  # fmt: skip
def test_a_folder_is_known_after_a_restart_and_after_an_overlay_copied_it(review, other, known):
    """Devices may get other numbers, and an overlay file system gives a folder another birth."""
    review.agent("echo new > job")
    path = os.path.join(review.home, review.reviews()[0], "review.json")
    with open(path, encoding="utf-8") as file:
        meta = json.load(file)
    if meta["place"]["born_s"] == 0:
        pytest.skip("this file system keeps no time of birth")
    meta["place"] |= other
    with open(path, "w", encoding="utf-8") as file:
        json.dump(meta, file)
    review.apply(check=0 if known else 1)
    assert os.listdir(review.work) == (["job"] if known else [])


def test_a_review_that_does_not_say_which_folder_it_is_of_is_only_discarded(review):
    review.agent("echo new > job")
    path = os.path.join(review.home, review.reviews()[0], "review.json")
    with open(path, encoding="utf-8") as file:
        meta = json.load(file)
    del meta["place"]
    with open(path, "w", encoding="utf-8") as file:
        json.dump(meta, file)
    done = review.apply(check=1)
    assert b"did not note which folder it is of" in done.stderr and b"discard --review" in done.stderr
    assert os.listdir(review.work) == []
    review.verb("discard")
    assert review.reviews() == []
