"""Tools that everybody has, in the sandbox, under the preset of the registry that each asks."""

import everyday
import pytest


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    one = everyday.World(str(tmp_path_factory.mktemp("world")))
    yield one
    one.close()


@pytest.mark.parametrize("variables", [True, False], ids=["variables", "captured"])
@pytest.mark.parametrize("tool", everyday.TOOLS, ids=lambda tool: tool.program)
def test_a_tool_of_everyday_works_under_the_preset_of_its_registry(world, tmp_path, tool, variables):
    if why := tool.why_missing():
        pytest.skip(why)
    world.begin()
    use = everyday.Use(tool, str(tmp_path / "use"), world)
    done = use.run(variables)
    assert use.why_not(done) == "", done.said
    assert {r["event"] for r in use.records()} >= {"open", "close"}
