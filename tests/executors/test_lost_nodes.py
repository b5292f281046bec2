"""A gang loses the machines of its workers, one after the other, and goes on where it stopped on what there is then."""

import os
import re

import pytest
from conftest import QUIET, driving, until
from spaces import sandbox_space, written

from raysweep.query.sweep import open_sweep
from tests.chaos.waiting import PATIENCE


@pytest.mark.long
def test_a_gang_whose_nodes_go_is_tried_again_on_those_that_are_left_and_on_a_new_one(sandbox, storage, tmp_path):
    """One worker a node. The node of the second worker goes first, and in the next try that of the first worker."""
    from ray.cluster_utils import Cluster

    asked = {"axes": {"behaviour": ["lose_nodes"], "again": [0, 1]}, "zip": [], "resources": {"gang": 2}}
    space = sandbox_space(tmp_path, [], workload="together", seeds=[1], **asked)
    message = tmp_path / "said.txt"
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    try:
        nodes = {node.node_id: node for node in (cluster.add_node(num_cpus=1) for _ in range(3))}
        cluster.wait_for_nodes()
        asked = ("run", written(tmp_path, space), "--storage", storage, *QUIET, "--executor", "ray")
        env = {**os.environ, "RAY_ADDRESS": cluster.address}
        with message.open("w") as stream, driving(*asked, stderr=stream, env=env) as driver:
            for death in range(2):
                mark = tmp_path / f"lose_nodes-0-1.death{death}"
                until(mark.exists, driver)
                cluster.remove_node(nodes.pop(mark.read_text()), allow_graceful=False)
                until(lambda death=death: message.read_text().count("lost a ") > death, driver)
            cluster.add_node(num_cpus=1)
            assert driver.wait(PATIENCE) == 0, message.read_text()
    finally:
        cluster.shutdown()
    output = message.read_text()
    assert "Traceback" not in output
    assert len(re.findall("lost a (?:machine|worker); trying its pack of 2 rows again", output)) == 2, output
    assert "stages: 1 distinct, 1 computed, " in output
    table = open_sweep("sandy", storage).results()
    assert table["status"].tolist() == ["ok"] * 2
    assert table["y"].tolist() == [4 * 78] * 2
    assert set(table["workers"]) == {2}
    assert (tmp_path / "lose_nodes-0-1.steps").read_text().split() == ["1", "2", "3", "4"]  # none of them twice
