"""Every place of the keeper that holds a secret is gathered into the list of what is looked for."""

import glob
import os
import re

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

# What lives longer than the call that made it.
KEPT = {("kh_item", "secret"), ("kh_holding", "client_secret"), ("kh_holding", "refresh_token"), ("kh_variable", "secret")}
ITEMS = {("kh_holding", "raw"), ("kh_made", "item")}
# References of another's, on their way from one function to the next; lists of fingerprints; the list itself.
PASSED = {("kh_value", "secret"), ("kh_token", "secret"), ("lists", "list"), ("kh_known_secret", "secret")}


def members(of):
    """(struct, member) of each that is declared in the keeper."""
    found = set()
    for name in glob.glob(os.path.join(ROOT, "src/keeper/*.[ch]")):
        with open(name, encoding="utf-8") as file:
            text = re.sub(r"/\*.*?\*/", "", file.read(), flags=re.S)
        for struct, body in re.findall(r"^struct (\w+) \{\n(.*?)^\}", text, flags=re.S | re.M):
            for line in re.findall(rf"^\t+(?:const )?struct {of} ([^;(]+);", body, flags=re.M):
                found |= {(struct, re.sub(r"\[.*|\W", "", one)) for one in line.split(",")}
    return found


def test_no_place_that_holds_a_secret_is_missing_in_the_list():
    assert members(r"kh_secret(?= \*)") == KEPT | PASSED
    assert members("kh_item") == ITEMS
    with open(os.path.join(ROOT, "src/keeper/known_secrets.c"), encoding="utf-8") as file:
        gathered = set(re.findall(r"note\(g, (\w+)->(\w+)(?:\.secret)?,", file.read()))
    assert gathered == {("holding", "raw"), ("holding", "client_secret"), ("holding", "refresh_token"), ("made", "item"),
                        ("variable", "secret")}  # fmt: skip
    assert len(gathered) == len((KEPT | ITEMS) - {("kh_item", "secret")})
