"""An account of Amazon's without Amazon: moto on the loopback, and for each instance in it a machine of the tests."""

import threading
from contextlib import contextmanager

import servers

REGION = "eu-central-1"


def variables_of(endpoint):
    """What one has to say to use the account, which on EC2 a machine knows by itself."""
    return {**servers.account(endpoint, REGION), "MLFLOW_S3_ENDPOINT_URL": endpoint}


def client(variables, service):
    """A client of one of the account's services."""
    import boto3

    return boto3.client(
        service,
        endpoint_url=variables["AWS_ENDPOINT_URL"],
        region_name=REGION,
        aws_access_key_id=variables["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=variables["AWS_SECRET_ACCESS_KEY"],
    )


def network_on_loopback(variables):
    ec2 = client(variables, "ec2")
    network = ec2.create_vpc(CidrBlock="127.0.0.0/16")["Vpc"]["VpcId"]
    subnet = ec2.create_subnet(VpcId=network, CidrBlock="127.0.0.16/28")["Subnet"]["SubnetId"]
    ec2.modify_subnet_attribute(SubnetId=subnet, MapPublicIpOnLaunch={"Value": True})
    return str(network)


def instances(variables):
    told = client(variables, "ec2").describe_instances()
    return [instance for reservation in told["Reservations"] for instance in reservation["Instances"]]


@contextmanager
def with_machines(machines, variables):
    """While this lasts, an instance that the account starts is a machine, and one that it ends is gone at once."""
    over, failed = threading.Event(), []

    def follow():
        up = set()
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


def _start(machines, variables, instance):
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
