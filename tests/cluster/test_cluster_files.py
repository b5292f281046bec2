"""Every file in clusters/ holds against Ray's own schema, and says what that schema lacks about money and security."""

import copy
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import jsonschema
import pytest
import yaml
from ray.autoscaler._private.util import prepare_config, validate_config

import raysweep
from raysweep import main

CLUSTERS = Path(__file__).parents[2] / "clusters"
RAY = {name: yaml.safe_load((CLUSTERS / f"{name}.yaml").read_text()) for name in ("aws", "gcp", "local")}
FILES = sorted(path.name for path in CLUSTERS.iterdir())


def test_these_are_the_files():
    assert FILES == ["README.md", "aws.yaml", "gcp.yaml", "kubernetes.yaml", "local.yaml", "slurm.sh"]


@pytest.mark.parametrize("name", RAY)
def test_ray_accepts_it_only_who_has_the_token_reaches_it_and_no_server_listens_to_all(name):
    config = RAY[name]
    validate_config(prepare_config(copy.deepcopy(config)))
    assert not {"min_workers", "initial_workers", "head_node", "worker_nodes"} & config.keys()  # which Ray ignores
    assert config["file_mounts"]["~/.ray/auth_token"] == "~/.ray/auth_token"
    assert "chmod 600 ~/.ray/auth_token" in config["setup_commands"]
    for kind in ("head", "worker"):
        line = " ".join(config[f"{kind}_start_ray_commands"])
        assert "RAY_AUTH_MODE=token " in line
        assert "--disable-usage-stats" in line
        assert "0.0.0.0" not in line
        assert "--host ::" not in line


@pytest.mark.parametrize("cloud", ["aws", "gcp"])
def test_workers_start_from_none_and_nothing_idle_goes_on_costing(cloud):
    config = RAY[cloud]
    head, gpu = (config["available_node_types"][name] for name in ("head", "gpu"))
    assert (config["head_node_type"], head["max_workers"], gpu["min_workers"]) == ("head", 0, 0)
    assert 0 < gpu["max_workers"] <= config["max_workers"]
    assert 0 < config["idle_timeout_minutes"] <= 15
    assert config["provider"]["cache_stopped_nodes"] is False
    assert "security_group" not in config["provider"]  # Ray would make one that lets SSH in from anywhere
    assert not re.search("aws_access_key|aws_secret|/.aws|credentials", str(config), re.IGNORECASE)  # no key is copied


def test_googles_machines_are_closed_and_gone_with_their_disks():
    head, gpu = (RAY["gcp"]["available_node_types"][name]["node_config"] for name in ("head", "gpu"))
    disk = {"boot": True, "autoDelete": True, "type": "PERSISTENT"}
    subnet = "projects/EDIT_PROJECT/regions/EDIT_REGION/subnetworks/EDIT_SUBNET"
    both = {
        "disks": [{**disk, "initializeParams": {"diskSizeGb": 100, "sourceImage": "EDIT_IMAGE"}}],
        "networkInterfaces": [
            {"subnetwork": subnet, "accessConfigs": [{"name": "External NAT", "type": "ONE_TO_ONE_NAT"}]}
        ],
        "tags": {"items": ["raysweep"]},  # what the firewall rules are about
        "shieldedInstanceConfig": {"enableVtpm": True, "enableIntegrityMonitoring": True},
    }

    def account(name, scope):
        email = f"raysweep-{name}@EDIT_PROJECT.iam.gserviceaccount.com"
        return [{"email": email, "scopes": [f"https://www.googleapis.com/auth/{scope}"]}]

    assert head == {"machineType": "n2-standard-8", "serviceAccounts": account("head", "cloud-platform"), **both}
    spot = {
        "provisioningModel": "SPOT",
        "instanceTerminationAction": "DELETE",
        "onHostMaintenance": "TERMINATE",
        "automaticRestart": False,
    }
    worker = {"serviceAccounts": account("worker", "devstorage.read_write"), "scheduling": spot}
    assert gpu == {"machineType": "g2-standard-24", **worker, **both}


def test_google_s_machines_are_installed_and_started_as_amazon_s():
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
def test_it_names_no_other_version_and_says_where_to_edit(name):
    text = (CLUSTERS / name).read_text()
    named = re.findall(r"raysweep[-:](\d+\.\d+\.\d+)", text) + re.findall(r"^version=(\S+)", text, re.MULTILINE)
    assert set(named) == {raysweep.__version__} == {main.VERSION}
    assert name == "README.md" or "EDIT_ word" in "".join(text.split("\n\n")[:2])
    assert len(set(re.findall(r"EDIT_[A-Z_]*[A-Z]", text))) >= 2


@pytest.fixture
def job():
    return next(
        part for part in yaml.safe_load_all((CLUSTERS / "kubernetes.yaml").read_text()) if part["kind"] == "RayJob"
    )


KUBERAY = jsonschema.Draft202012Validator(json.loads((Path(__file__).parent / "kuberay_rayjob.json").read_text()))


def test_the_kubernetes_job_fits_the_schema_of_kuberays_resource(job):
    assert job["apiVersion"] == "ray.io/v1"
    assert [f"{'.'.join(map(str, error.path))}: {error.message}" for error in KUBERAY.iter_errors(job)] == []
    for group in job["spec"]["rayClusterSpec"]["workerGroupSpecs"]:
        assert group["minReplicas"] <= group["replicas"] <= group["maxReplicas"]


def test_kubernetes_pods_run_this_version_as_nobody_special_and_share_one_volume(job):
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


def test_the_entrypoint_of_the_kubernetes_job_is_a_command_of_ours(job, tmp_path, call):
    program, *words = job["spec"]["entrypoint"].split()
    assert program == "raysweep"
    words[words.index("--storage") + 1] = str(tmp_path)
    assert call(*words, "--dry-run").code == 0


def test_the_policies_of_the_readme_allow_what_is_needed_and_no_more():
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


def test_the_shell_of_the_readme_is_shell():
    text = (CLUSTERS / "README.md").read_text()
    blocks = re.findall(r"```(?:sh|bash)\n(.*?)```", text, re.DOTALL)
    assert len(blocks) > 5
    for block in blocks:
        assert subprocess.run(["bash", "-n"], input=block, text=True, check=False).returncode == 0, block


def test_the_slurm_file_is_a_shell_script_with_sane_directives():
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
