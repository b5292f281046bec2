"""An account of Amazon's without Amazon: moto on the loopback, and for each instance in it a machine of the tests."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import server
from reader import REPOSITORY

REGION = "eu-central-1"


@contextmanager
def made() -> Iterator[dict[str, str]]:
    """An empty account; what one has to say to use it, which on EC2 a machine knows by itself."""
    serving = subprocess.Popen(
        [sys.executable, REPOSITORY / "tests" / "support" / "s3_server.py"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert serving.stdout is not None
        endpoint = f"http://127.0.0.1:{serving.stdout.readline().strip()}"
        yield {
            "AWS_ENDPOINT_URL": endpoint,
            "MLFLOW_S3_ENDPOINT_URL": endpoint,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_DEFAULT_REGION": REGION,
            "AWS_EC2_METADATA_DISABLED": "true",
        }
    finally:
        serving.terminate()
        serving.wait(30)


def client(variables: dict[str, str], service: str) -> Any:
    """A client of one of the account's services."""
    import boto3

    return boto3.client(
        service,
        endpoint_url=variables["AWS_ENDPOINT_URL"],
        region_name=REGION,
        aws_access_key_id=variables["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=variables["AWS_SECRET_ACCESS_KEY"],
    )


def network_on_loopback(variables: dict[str, str]) -> str:
    """A VPC whose machines get addresses of the loopback, besides the one that every account has; returns its id."""
    ec2 = client(variables, "ec2")
    network = ec2.create_vpc(CidrBlock="127.0.0.0/16")["Vpc"]["VpcId"]
    subnet = ec2.create_subnet(VpcId=network, CidrBlock="127.0.0.16/28")["Subnet"]["SubnetId"]
    ec2.modify_subnet_attribute(SubnetId=subnet, MapPublicIpOnLaunch={"Value": True})
    return str(network)


def instances(variables: dict[str, str]) -> list[dict[str, Any]]:
    """Every instance of the account as EC2 describes it, ended ones too."""
    told = client(variables, "ec2").describe_instances()
    return [instance for reservation in told["Reservations"] for instance in reservation["Instances"]]


@contextmanager
def with_machines(machines: server.Machines, variables: dict[str, str]) -> Iterator[None]:
    """While this lasts, an instance that the account starts is a machine, and one that it ends is gone at once."""
    over, failed = threading.Event(), []

    def follow() -> None:
        up: set[str] = set()
        while not over.wait(0.3):
            try:
                for instance in instances(variables):
                    name, runs = instance["InstanceId"], instance["State"]["Name"] == "running"
                    if runs and name not in up:
                        up.add(name)
                        _start(machines, variables, instance)
                    elif not runs and name in up:
                        up.remove(name)
                        machines.stop(instance["PrivateIpAddress"])
            except Exception as error:
                failed.append(error)
                return

    following = threading.Thread(target=follow)
    following.start()
    try:
        yield
    finally:
        over.set()
        following.join()
        if failed:
            raise failed[0]


def _start(machines: server.Machines, variables: dict[str, str], instance: dict[str, Any]) -> None:
    """A server where the instance has its private address; ssh finds it by the public one, which moto made up."""
    host, name = instance["PrivateIpAddress"], instance["InstanceId"]
    assert host.startswith("127.0.0."), f"not on the loopback: {instance}"
    told = client(variables, "ec2").describe_key_pairs(KeyNames=[instance["KeyName"]], IncludePublicKey=True)
    key = machines.folder / f"{name}.pub"
    key.write_text(told["KeyPairs"][0]["PublicKey"] + "\n")
    machines.start(host, key)
    (machines.folder / "addresses" / name).write_text(
        f"Host {instance['PublicIpAddress']}\n  HostName {host}\n  Port {machines.port}\n"
    )
