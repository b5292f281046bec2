"""clusters/aws.yaml from `ray up` to `ray down`, as clusters/README.md has it, in an account that moto pretends.

EC2, IAM and S3 are moto on the loopback; every instance that it starts is an SSH server on the loopback, at the private
address that moto gave it. The public addresses are moto's inventions: the SSH configuration sends each to its machine
and any other to a closed port of the loopback, so that nothing leaves this machine.
"""

import re
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

import account
import pytest
import server
from conftest import until
from reader import REPOSITORY, blocks_of_readme, check_out, type_line

from raysweep.space import space_files
from tests.chaos.waiting import wait_for

pytestmark = pytest.mark.cluster
BUCKET = "raysweep-of-the-tests"
STORAGE = f"s3://{BUCKET}/sweeps"
YOUR_ADDRESS = "192.0.2.7"


@dataclass
class Cloud:
    """A reader with a copy of the repository, and an account."""

    machines: server.Machines
    checkout: Path
    words: dict[str, str]

    def type(self, line):
        return type_line(self.machines, self.checkout, self.edited(line))

    def edited(self, text):
        """With what a user puts for the EDIT_ words."""
        for word, value in self.words.items():
            text = text.replace(word, value)
        return text

    def instances(self, kind="", states=("pending", "running")):
        return [
            instance
            for instance in account.instances(self.machines.variables)
            if instance["State"]["Name"] in states and (not kind or tags(instance)["ray-user-node-type"] == kind)
        ]


def tags(instance):
    return {tag["Key"]: tag["Value"] for tag in instance["Tags"]}


@pytest.fixture(scope="module")
def cloud(s3_server):
    """An account made ready by the commands of the README, and a head that is up."""
    server.need()
    folder = Path(tempfile.mkdtemp(prefix="rs-", dir="/tmp"))
    try:
        variables = account.variables_of(s3_server)
        with server.serve(folder, variables) as machines, account.with_machines(machines, variables):
            found = Cloud(machines, folder / "checkout", {})
            check_out(found.checkout)
            found.words |= {
                "EDIT_REGION": account.REGION,
                "EDIT_BUCKET": BUCKET,
                "EDIT_ADDRESS": YOUR_ADDRESS,
                "EDIT_VPC": account.network_on_loopback(variables),
                "EDIT_AMI": account.client(variables, "ec2").describe_images()["Images"][0]["ImageId"],
            }
            for block in blocks_of_readme("Amazon EC2", "sh"):
                done = found.type(f"set -e\n{block}")
                assert done.code == 0, done.text[-4000:]
                found.words |= dict(re.findall(r"^(EDIT_\w+): (\S+)$", done.text, re.MULTILINE))
            edit_a_copy(found)
            for line in ("make wheel", "ray get-auth-token --generate > /dev/null", "ray up -y my-aws.yaml"):
                done = found.type(line)
                assert done.code == 0, f"{line}\n{done.text[-12000:]}"
            yield found
        assert not machines.processes()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def edit_a_copy(cloud):
    """The copy of aws.yaml: the EDIT_ words; ports, for other servers may run on this machine; a shorter idle time."""
    text = cloud.edited((REPOSITORY / "clusters" / "aws.yaml").read_text())
    assert not re.search(r"EDIT_[A-Z]+[A-Z_]*", text.split("\n\n", 2)[2])
    for old, new in {"6379": server.free_port(), "5000": server.free_port()}.items():
        cloud.words[f"127.0.0.1:{old}"] = f"127.0.0.1:{new}"
        text = text.replace(old, str(new))
    text, times = re.subn(r"^idle_timeout_minutes: \d+", "idle_timeout_minutes: 0.5", text, flags=re.MULTILINE)
    assert times == 1
    (cloud.checkout / "my-aws.yaml").write_text(text)


def test_ray_up_starts_one_head_as_the_file_says_and_no_more(cloud):
    (head,) = cloud.instances()
    assert tags(head).items() >= {"ray-cluster-name": "raysweep", "ray-user-node-type": "head"}.items()
    assert head["InstanceType"] == "m7i.2xlarge"
    assert head["IamInstanceProfile"]["Arn"].endswith(":instance-profile/raysweep-head")
    assert "InstanceLifecycle" not in head  # on demand
    closed_and_gone_with_it(cloud, head)


def closed_and_gone_with_it(cloud, instance):
    """Holds of every machine: IMDSv2 only, nothing open but SSH from one address, an encrypted disk that goes too."""
    ec2 = account.client(cloud.machines.variables, "ec2")
    metadata = instance["MetadataOptions"]
    assert (metadata["HttpTokens"], metadata["HttpPutResponseHopLimit"]) == ("required", 1)
    asked = {"InstanceId": instance["InstanceId"], "Attribute": "instanceInitiatedShutdownBehavior"}
    told = ec2.describe_instance_attribute(**asked)
    assert told["InstanceInitiatedShutdownBehavior"] == {"Value": "terminate"}

    (group,) = [group["GroupId"] for group in instance["SecurityGroups"]]
    assert group == cloud.words["EDIT_SECURITY_GROUP"]
    (described,) = ec2.describe_security_groups(GroupIds=[group])["SecurityGroups"]
    from_outside = [rule for rule in described["IpPermissions"] if not rule["UserIdGroupPairs"]]
    inside = [rule for rule in described["IpPermissions"] if rule["UserIdGroupPairs"]]
    assert [(rule["IpProtocol"], rule["FromPort"], rule["ToPort"]) for rule in from_outside] == [("tcp", 22, 22)]
    assert [ip["CidrIp"] for rule in from_outside for ip in rule["IpRanges"]] == [f"{YOUR_ADDRESS}/32"]
    assert not [ip for rule in described["IpPermissions"] for ip in rule.get("Ipv6Ranges", [])]
    assert [pair["GroupId"] for rule in inside for pair in rule["UserIdGroupPairs"]] == [group]
    assert not [ip for rule in inside for ip in rule["IpRanges"]]

    (disk,) = instance["BlockDeviceMappings"]
    assert disk["Ebs"]["DeleteOnTermination"]
    (volume,) = ec2.describe_volumes(VolumeIds=[disk["Ebs"]["VolumeId"]])["Volumes"]
    assert (volume["Size"], volume["VolumeType"], volume["Encrypted"]) == (100, "gp3", True)


SUBMIT = "ray submit my-aws.yaml raysweep/main.py"


def test_submitted_without_arguments_it_says_what_it_is_and_lists_the_spaces(cloud):
    done = cloud.type(SUBMIT)
    assert done.code == 0, done.text[-3000:]
    assert "How does what you get after fine-tuning depend on" in done.text
    assert not [name for name in space_files.packaged() if not re.search(rf"^{name} +\w", done.text, re.MULTILINE)]


def test_the_cards_own_command_runs_on_the_head_alone(cloud):
    done = cloud.type(f"{SUBMIT} -- run quickstart")
    assert done.code == 0, done.text[-4000:]
    assert "700 of 700 rows" in done.text
    assert [tags(instance)["ray-user-node-type"] for instance in cloud.instances()] == ["head"]


def test_a_waiting_trial_brings_a_spot_gpu_machine_whose_rows_are_in_the_bucket(cloud):
    asked = f"run quickstart --name on_gpus --storage {STORAGE} --tracking-uri http://127.0.0.1:5000 --executor ray"
    # The exact end points of quickstart need no GPU: there is none here, Ray is told of four by the instance type.
    done = cloud.type(f"{SUBMIT.replace('submit', 'submit --tmux')} -- {asked} --set resources.gpus_per_trial=4")
    assert done.code == 0, done.text[-4000:]
    until(lambda: cloud.instances("gpu"), seconds=120)
    (worker,) = cloud.instances("gpu")
    assert tags(worker).items() >= {"ray-cluster-name": "raysweep", "ray-node-type": "worker"}.items()
    assert worker["InstanceType"] == "g6.12xlarge"
    assert worker["IamInstanceProfile"]["Arn"].endswith(":instance-profile/raysweep-worker")
    assert worker["InstanceLifecycle"] == "spot"
    closed_and_gone_with_it(cloud, worker)

    told = "on_gpus: finished, 700 of 700 rows (700 ok)"
    status = f"raysweep status on_gpus --storage {STORAGE}"  # from here, which the bucket lets in as well
    assert wait_for(lambda: told in cloud.type(status).text, seconds=300), cloud.machines.autoscaler_said()
    assert any(name.startswith("sweeps/on_gpus/ledger/") for name in names_in_the_bucket(cloud))
    mirrored = re.compile(r"mlflow-artifacts/.*/results\.csv")  # by the head's MLflow server, after the last row
    until(lambda: any(map(mirrored.fullmatch, names_in_the_bucket(cloud))), seconds=120)


def names_in_the_bucket(cloud):
    s3 = account.client(cloud.machines.variables, "s3")
    return [entry["Key"] for entry in s3.list_objects_v2(Bucket=BUCKET)["Contents"]]


def test_a_gpu_machine_with_nothing_to_do_is_ended(cloud):
    assert wait_for(lambda: not cloud.instances("gpu"), seconds=180), cloud.machines.autoscaler_said()
    until(lambda: cloud.machines.running("raylet/raylet") == 1, seconds=30)
    assert len(cloud.instances("head")) == 1


def test_after_ray_down_nothing_runs_and_the_sweep_is_in_the_bucket(cloud):
    done = cloud.type("ray down -y my-aws.yaml")
    assert done.code == 0, done.text[-3000:]
    assert cloud.instances(states=("pending", "running", "stopping", "stopped")) == []
    volumes = account.client(cloud.machines.variables, "ec2").describe_volumes()["Volumes"]
    assert volumes == []  # a disk that stays costs
    until(lambda: not cloud.machines.processes(), seconds=30)
    assert "700 of 700 rows" in cloud.type(f"raysweep status on_gpus --storage {STORAGE}").text
