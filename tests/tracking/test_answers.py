"""The answers of a report in MLflow."""

import json
from pathlib import Path

import raysweep
from raysweep.tracking import server

AXES = {"overlap_angle": [30.0, 50.0, 70.0, 90.0], "gamma": [0.2, 0.4]}


def test_the_sweep_s_own_run_has_a_tag_for_each_answer_of_the_report(tmp_path):
    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    sweep = raysweep.run(
        "quickstart", storage=tmp_path, tracking_uri=uri, executor="inline", seeds=3, axes=AXES, say=lambda line: None
    )
    client = server.connect(uri)
    experiment = client.get_experiment_by_name("quickstart")
    (parent,) = client.search_runs([experiment.experiment_id], "tags.`raysweep.kind` = 'sweep'")
    tags = {key: value for key, value in parent.data.tags.items() if key.startswith("raysweep.finding.")}
    report = json.loads((Path(str(sweep.folder)) / "report" / "report.json").read_text())
    assert tags == {f"raysweep.finding.{one['name']}": one["answer"] for one in report["findings"]}
    assert len(tags) == len(sweep.findings()) >= 1
