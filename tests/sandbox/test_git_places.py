"""Where the host's git looks by its own rules: a place that is empty before the run is none that the agent can fill."""

import os
import subprocess

import pytest
from conftest import PATIENCE, USER
from test_git_reads import settings
from test_review import Review
from test_set_aside import Host
from test_workspace import repository

pytestmark = [pytest.mark.identity("user"), pytest.mark.before_the_engine]


class Person(Host):
    """Uses git in the workspace with the same home and the same environment as keyhole was started with."""

    def __init__(self, sandbox, workspace, **more):
        super().__init__(sandbox, workspace)
        self.more = more
        self.env = {name: value for name, value in self.env.items() if name != "GIT_CONFIG_NOSYSTEM"}
        self.env.update(HOME=sandbox.place, **more)
        repository(sandbox, workspace)

    def tries(self, name, **more):
        script = f"mkdir -p '{os.path.dirname(name) or '.'}'; cat > '{name}' <<'END'\n{self.config}END\n"
        done = self.sandbox.run("sh", "-c", script, workspace=self.workspace,
                                env=self.sandbox.environment(**{**self.more, **more}))  # fmt: skip
        assert done.returncode != 125, done.stderr
        self.works()
        assert not os.path.exists(self.path(name)), done.stderr
        # The attack is one: whoever could write there would have git run a command.
        self.sandbox.file(self.path(name), self.config)
        assert self.would_run(""), "that is no attack at all"


PLACES = ["~/.config", "$XDG_CONFIG_HOME", "$GIT_CONFIG_GLOBAL", "$GIT_CONFIG_SYSTEM", "a link that leads nowhere", "the folder itself"]


def person(sandbox, where):
    """Somebody for whom that place is in the workspace, and the name of the absent file there."""
    if where == "~/.config":
        return Person(sandbox, sandbox.folder(".config")), "git/config"
    if where == "the folder itself":
        return Person(sandbox, sandbox.folder(".config/git")), "config"
    work = sandbox.folder("work")
    if where == "$XDG_CONFIG_HOME":
        return Person(sandbox, work, XDG_CONFIG_HOME=os.path.join(work, "deep/er")), "deep/er/git/config"
    if where.startswith("$"):
        return Person(sandbox, work, **{where[1:]: os.path.join(work, "settings")}), "settings"
    os.symlink("work/dots/gitconfig", os.path.join(sandbox.place, ".gitconfig"))
    return Person(sandbox, work), "dots/gitconfig"


@pytest.mark.parametrize("where", PLACES)
def test_a_configuration_that_is_absent_is_not_the_agents_to_make(sandbox, where):
    host, name = person(sandbox, where)
    host.tries(name)


@pytest.mark.parametrize("where", PLACES)
def test_the_same_where_there_is_no_git_that_could_say_so(sandbox, where):
    host, name = person(sandbox, where)
    programs = sandbox.folder("programs")
    for other in os.listdir("/usr/bin"):
        if not other.startswith("git"):
            os.symlink(os.path.join("/usr/bin", other), os.path.join(programs, other))
    host.tries(name, PATH=programs)


@pytest.mark.parametrize("name", ["git/config", "git/attributes", "git/ignore", "git/credentials"])
def test_what_git_reads_beside_its_configuration_is_not_the_agents_to_make(sandbox, name):
    host = Person(sandbox, sandbox.folder(".config"))
    settings(host, "[user]\n\tname = somebody\n")
    sandbox.file(host.path("git/" + ("ignore" if name.endswith("config") else "config")), "\n")
    sandbox.give(host.workspace)
    done = host.sandbox.run("sh", "-c", f"echo x > {name}; echo x >> git/config; echo x >> git/ignore; echo x > plain", workspace=host.workspace)
    assert done.returncode != 125, done.stderr
    assert len(os.listdir(host.path("git"))) == 1, done.stderr
    assert {host.read(os.path.join("git", other)) for other in os.listdir(host.path("git"))} == {"\n"}
    assert host.read("plain") == "x\n"


@pytest.mark.parametrize("variable, name", [("GIT_TEMPLATE_DIR", "hooks/pre-commit"), ("GIT_EXEC_PATH", "git-status")])
def test_a_folder_of_programs_that_the_environment_names_is_not_the_agents_to_make(sandbox, workspace, variable, name):
    host = Host(sandbox, workspace)
    done = sandbox.run("sh", "-c", f"mkdir -p tools/{os.path.dirname(name)}; echo x > tools/{name}", workspace=workspace,
                       env=sandbox.environment(**{variable: host.path("tools")}))  # fmt: skip
    assert done.returncode != 125 and not os.path.exists(host.path("tools")), done.stderr


@pytest.mark.parametrize("where", ["~/.config", "$XDG_CONFIG_HOME", "$GIT_CONFIG_GLOBAL"])
def test_an_absent_configuration_is_taken_over_only_where_it_is_named(sandbox, where):
    review = Review(sandbox)
    review.repository()
    more, name = {
        "~/.config": ({"HOME": os.path.dirname(review.work)}, "git/config"),
        "$XDG_CONFIG_HOME": ({"XDG_CONFIG_HOME": review.work}, "git/config"),
        "$GIT_CONFIG_GLOBAL": ({"GIT_CONFIG_GLOBAL": os.path.join(review.work, "settings")}, "settings"),
    }[where]
    if where == "~/.config":
        os.symlink(os.path.basename(review.work), os.path.join(os.path.dirname(review.work), ".config"))
    environment = review.run_.environment
    review.run_.environment = lambda **other: {**environment(**other), **more}
    review.agent(f"mkdir -p git; echo x > {name}; echo x > plain")
    review.apply(check=1)
    assert review.contents() == {"plain": "x\n"}
    review.apply(name)
    assert name in review.contents()


@pytest.mark.identity("root")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_root_knows_where_the_git_of_the_owner_of_the_workspace_looks(sandbox):
    home = sandbox.folder("theirs")
    work = os.path.join(home, ".config")
    os.mkdir(work)
    with open("/etc/passwd", encoding="utf-8") as file:
        passwd = sandbox.file(os.path.join(sandbox.place, "passwd"), file.read() + f"kh-owner:x:{USER}:{USER}::{home}:/bin/sh\n")
    for folder in (home, work):
        os.chown(folder, USER, USER)
    command = sandbox.command("sh", "-c", "mkdir -p git; echo x > git/config; echo x > plain", workspace=work)
    done = subprocess.run(["unshare", "-m", "sh", "-c", 'mount --bind "$0" /etc/passwd && exec "$@"', passwd, *command],
                          capture_output=True, timeout=PATIENCE, env=sandbox.environment(), cwd="/", check=False)  # fmt: skip
    assert done.returncode != 125 and os.listdir(work) == ["plain"], done.stderr
