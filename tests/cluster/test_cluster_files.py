"""Every file in clusters/ holds against Ray's own schema, against rules that it lacks, and each rule is alive."""

from __future__ import annotations

import copy
import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from cluster_rules import schema, wrong

import raysweep
from raysweep import main

CLUSTERS = Path(__file__).parents[2] / "clusters"
RAY = {name: yaml.safe_load((CLUSTERS / f"{name}.yaml").read_text()) for name in ("aws", "gcp", "local")}
FILES = sorted(path.name for path in CLUSTERS.iterdir())


def test_these_are_the_files() -> None:
    assert FILES == ["README.md", "aws.yaml", "gcp.yaml", "kubernetes.yaml", "local.yaml", "slurm.sh"]


@pytest.mark.parametrize("name", RAY)
def test_ray_accepts_it(name: str) -> None:
    schema(RAY[name])


@pytest.mark.parametrize("name", RAY)
def test_our_rules_accept_it(name: str) -> None:
    assert wrong(RAY[name]) == []


def test_google_s_machines_are_installed_and_started_as_amazon_s() -> None:
    """Which tests/cluster/test_aws.py does for real."""
    aws, gcp = (RAY[cloud] for cloud in ("aws", "gcp"))
    text = json.dumps([line for line in aws["setup_commands"] if "AWS_DEFAULT_REGION" not in line])
    assert (
        json.loads(text.replace("boto3", "google-api-python-client").replace(",s3]", ",gs]")) == gcp["setup_commands"]
    )
    starts = [line.replace("s3://", "gs://") for line in aws["head_start_ray_commands"]]
    assert starts == gcp["head_start_ray_commands"]
    for key in ("auth", "file_mounts", "worker_start_ray_commands", "max_workers", "upscaling_speed"):
        assert aws[key] == gcp[key]


@pytest.mark.parametrize("name", FILES)
def test_it_names_no_other_version(name: str) -> None:
    text = (CLUSTERS / name).read_text()
    named = re.findall(r"raysweep[-:](\d+\.\d+\.\d+)", text) + re.findall(r"^version=(\S+)", text, re.MULTILINE)
    assert set(named) == {raysweep.__version__}
    assert raysweep.__version__ == main.VERSION


@pytest.mark.parametrize("name", [name for name in FILES if name != "README.md"])
def test_it_says_where_to_edit(name: str) -> None:
    text = (CLUSTERS / name).read_text()
    assert "EDIT_ word" in text.split("\n\n")[0] + text.split("\n\n")[1]
    assert len(set(re.findall(r"EDIT_[A-Z_]*[A-Z]", text))) >= 2


def _at(path: str, value: Any) -> Callable[[dict[str, Any]], None]:
    """A change of one key, by dots; the value `None` takes it away."""

    def change(config: dict[str, Any]) -> None:
        *way, last = path.split(".")
        for step in way:
            config = config[step]
        if value is None:
            del config[last]
        else:
            config[last] = value

    return change


HEAD, GPU = "available_node_types.head.node_config", "available_node_types.gpu.node_config"
BREAKAGES = [
    ("aws", _at("min_workers", 1), "min_workers: legacy"),
    ("aws", _at(f"{GPU}.InstanceTyp", "g6.xlarge"), "gpu: unknown key InstanceTyp"),
    ("aws", _at(f"{GPU}.MetadataOptions.HttpToken", "required"), "unknown key MetadataOptions.HttpToken"),
    ("aws", _at(f"{HEAD}.MetadataOptions.HttpTokens", "optional"), "head: IMDSv1"),
    ("aws", _at(f"{GPU}.MetadataOptions", None), "gpu: IMDSv1"),
    ("aws", _at(f"{HEAD}.IamInstanceProfile", None), "head: no instance profile"),
    ("aws", _at(f"{HEAD}.ImageId", "latest_dlami"), "head: the image"),
    ("aws", _at(f"{GPU}.ImageId", None), "gpu: the image"),
    ("aws", _at(f"{HEAD}.InstanceMarketOptions", {"MarketType": "spot"}), "head: the head is spot"),
    ("aws", _at(f"{GPU}.InstanceMarketOptions", None), "gpu: a worker is not spot"),
    ("aws", _at(f"{HEAD}.InstanceInitiatedShutdownBehavior", "stop"), "head: a machine that shuts"),
    ("aws", _at("available_node_types.gpu.min_workers", 1), "gpu: workers do not start from none"),
    ("aws", _at("available_node_types.head.max_workers", None), "head: max_workers is not 0"),
    ("aws", _at("idle_timeout_minutes", None), "idle_timeout_minutes"),
    ("aws", _at("provider.cache_stopped_nodes", None), "cache_stopped_nodes"),
    ("aws", _at(f"{GPU}.SecurityGroupIds", None), "gpu: without a security group of ours"),
    ("aws", _at("provider.security_group", {"GroupName": "raysweep"}), "provider.security_group: made by Ray"),
    ("aws", _at("file_mounts", {"~/.aws": "~/.aws"}), "an access key is copied"),
    ("local", _at("file_mounts", {"~/raysweep-wheel": "dist"}), "no token"),
    ("gcp", _at("worker_start_ray_commands", ["ray stop", "ray start"]), "worker_start_ray_commands: Ray asks for no"),
    ("aws", _at("worker_start_ray_commands", ["ray start"]), "worker_start_ray_commands"),
    ("gcp", _at(f"{GPU}.scheduling", {"preemptable": True}), "unknown key scheduling.preemptable"),
    ("gcp", _at(f"{GPU}.machinetype", "g2-standard-24"), "gpu: unknown key machinetype"),
    ("gcp", _at(f"{GPU}.tags", None), "gpu: without the tag"),
    ("gcp", _at(f"{GPU}.networkInterfaces", None), "gpu: on the default network"),
    ("gcp", _at(f"{HEAD}.serviceAccounts", None), "no service account"),
    (
        "gcp",
        _at(
            f"{HEAD}.disks",
            [{"autoDelete": True, "initializeParams": {"sourceImage": "projects/p/global/images/family/common-cpu"}}],
        ),
        "head: the image",
    ),
    ("local", _at("min_workers", 0), "min_workers: legacy"),
    (
        "local",
        _at("head_start_ray_commands", ["ray stop", "ray start --head --disable-usage-stats --dashboard-host=0.0.0.0"]),
        "listens on all addresses",
    ),
]


@pytest.mark.parametrize(("name", "change", "message"), BREAKAGES, ids=[f"{name}: {m}" for name, _, m in BREAKAGES])
def test_a_broken_copy_is_found_out(name: str, change: Callable[[dict[str, Any]], None], message: str) -> None:
    config = copy.deepcopy(RAY[name])
    change(config)
    found = wrong(config)
    assert any(message in sentence for sentence in found), found


def test_rays_schema_alone_would_miss_the_worst_of_them() -> None:
    for name, change, message in BREAKAGES:
        if message.startswith(("min_workers: legacy", "gpu: unknown key InstanceTyp")):
            config = copy.deepcopy(RAY[name])
            change(config)
            schema(config)  # no complaint: this is why there are rules


@pytest.fixture
def job() -> dict[str, Any]:
    return next(
        part for part in yaml.safe_load_all((CLUSTERS / "kubernetes.yaml").read_text()) if part["kind"] == "RayJob"
    )


KUBERAY = jsonschema.Draft202012Validator(json.loads((Path(__file__).parent / "kuberay_rayjob.json").read_text()))


def test_the_kubernetes_job_fits_the_schema_of_kuberays_resource(job: dict[str, Any]) -> None:
    assert job["apiVersion"] == "ray.io/v1"
    assert [f"{'.'.join(map(str, error.path))}: {error.message}" for error in KUBERAY.iter_errors(job)] == []
    for group in job["spec"]["rayClusterSpec"]["workerGroupSpecs"]:
        assert group["minReplicas"] <= group["replicas"] <= group["maxReplicas"]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("shutdownAfterJobFinish", True),
        ("backoffLimit", "2"),
        ("rayClusterSpec.autoscalerOptions.idleTimeout", 300),
        ("rayClusterSpec.headGroupSpec.rayStartParams", {"num-cpus": 0}),  # a map of strings
        ("rayClusterSpec.headGroupSpec.template.spec.container", []),
        ("rayClusterSpec.headGroupSpec.template.spec.securityContext.runAsUser", "1000"),
        ("rayClusterSpec.workerGroupSpecs", [{"groupName": "workers", "maxReplica": 8}]),
    ],
)
def test_a_kubernetes_job_that_kuberay_would_refuse_or_misread_is_found_out(
    job: dict[str, Any], path: str, value: Any
) -> None:
    _at(f"spec.{path}", value)(job)
    assert not KUBERAY.is_valid(job)


def test_kubernetes_pods_run_this_version_as_nobody_special_and_share_one_volume(job: dict[str, Any]) -> None:
    spec = job["spec"]
    claims = [
        part
        for part in yaml.safe_load_all((CLUSTERS / "kubernetes.yaml").read_text())
        if part["kind"] == "PersistentVolumeClaim"
    ]
    assert [claim["spec"]["accessModes"] for claim in claims] == [["ReadWriteMany"]]
    pods = [
        group["template"]["spec"]
        for group in (spec["rayClusterSpec"]["headGroupSpec"], *spec["rayClusterSpec"]["workerGroupSpecs"])
    ]
    for pod in pods:
        assert pod["securityContext"]["runAsNonRoot"]
        assert pod["volumes"] == [
            {"name": "storage", "persistentVolumeClaim": {"claimName": claims[0]["metadata"]["name"]}}
        ]
        for container in pod["containers"]:
            assert container["image"].endswith(f"/raysweep:{raysweep.__version__}")
            assert container["resources"]["requests"] == container["resources"]["limits"]
            mount = container["volumeMounts"][0]["mountPath"]
            assert f"--storage {mount}/" in spec["entrypoint"]
    assert spec["rayClusterSpec"]["headGroupSpec"]["serviceType"] == "ClusterIP"
    assert spec["shutdownAfterJobFinishes"]
    constraint = re.search(r"^ray==(\S+)$", (CLUSTERS.parent / "constraints.txt").read_text(), re.MULTILINE)
    assert constraint
    assert spec["rayClusterSpec"]["rayVersion"] == constraint[1]
    assert f"rayproject/ray:{constraint[1]}-" in (CLUSTERS / "README.md").read_text()


def test_the_entrypoint_of_the_kubernetes_job_is_a_command_of_ours(
    job: dict[str, Any], tmp_path: Path, call: Callable[..., Any]
) -> None:
    program, *words = job["spec"]["entrypoint"].split()
    assert program == "raysweep"
    words[words.index("--storage") + 1] = str(tmp_path)
    assert call(*words, "--dry-run").code == 0


def test_the_policies_of_the_readme_allow_what_is_needed_and_no_more() -> None:
    text = (CLUSTERS / "README.md").read_text()
    policies = {name: json.loads(policy) for name, policy in re.findall(r"^(\w+)='(\{.*\})'$", text, re.MULTILINE)}
    assert policies.keys() == {"trust", "bucket", "workers"}
    for policy in policies.values():
        assert policy["Version"] == "2012-10-17"
        for statement in policy["Statement"]:
            actions = statement["Action"] if isinstance(statement["Action"], list) else [statement["Action"]]
            assert statement["Effect"] == "Allow"
            assert not [action for action in actions if action in ("*", "s3:*", "ec2:*", "iam:*")]
    assert all(
        statement["Resource"].startswith("arn:aws:s3:::EDIT_BUCKET") for statement in policies["bucket"]["Statement"]
    )
    for cloud in ("aws", "gcp"):
        assert all(role in str(RAY[cloud]) and role in text for role in ("raysweep-head", "raysweep-worker"))


def test_the_shell_of_the_readme_is_shell() -> None:
    text = (CLUSTERS / "README.md").read_text()
    blocks = re.findall(r"```(?:sh|bash)\n(.*?)```", text, re.DOTALL)
    assert len(blocks) > 5
    for block in blocks:
        assert subprocess.run(["bash", "-n"], input=block, text=True, check=False).returncode == 0, block


def test_the_slurm_file_is_a_shell_script_with_sane_directives() -> None:
    text = (CLUSTERS / "slurm.sh").read_text()
    assert subprocess.run(["bash", "-n", str(CLUSTERS / "slurm.sh")], check=False).returncode == 0
    assert os.access(CLUSTERS / "slurm.sh", os.X_OK)
    assert "set -euo pipefail" in text
    lines = text.splitlines()
    directives = [number for number, line in enumerate(lines) if line.startswith("#SBATCH ")]
    first_command = next(number for number, line in enumerate(lines) if line and not line.startswith("#"))
    assert directives
    assert max(directives) < first_command  # Slurm reads none after the first command
    assert "#SBATCH --ntasks-per-node=1" in "\n".join(lines[number] for number in directives)
    code = re.sub(r'"[^"]*"|\'[^\']*\'|(?<=\s)#.*|\(\([^)]*\)\)', "", "\n".join(lines[first_command:]))
    assert not re.findall(r"\$\w+", code)  # every variable stands in quotes
    if shutil.which("shellcheck"):
        assert subprocess.run(["shellcheck", str(CLUSTERS / "slurm.sh")], check=False).returncode == 0
    assert "RAY_AUTH_MODE=token" in text
