"""What Ray's schema of a cluster file misses, as rules: each answers with sentences of what is wrong, none if right.

Ray takes any key below `node_config`, the legacy `min_workers` at the top, and says nothing of money or security. Keys
of EC2's RunInstances and of Compute Engine's Instance and Scheduling are those of botocore 1.44 and of the compute v1
discovery document.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


EC2_NODE_KEYS = _words("""
    BlockDeviceMappings CapacityReservationSpecification CpuOptions CreditSpecification DisableApiStop EbsOptimized
    DisableApiTermination EnablePrimaryIpv6 EnclaveOptions HibernationOptions IamInstanceProfile ImageId
    InstanceInitiatedShutdownBehavior InstanceMarketOptions InstanceType Ipv6AddressCount KeyName LaunchTemplate
    LicenseSpecifications MaintenanceOptions MetadataOptions Monitoring NetworkInterfaces NetworkPerformanceOptions
    Placement PrivateDnsNameOptions SecurityGroupIds SubnetId SubnetIds TagSpecifications UserData
    """)  # SubnetIds is Ray's own

GCE_NODE_KEYS = _words("""
    advancedMachineFeatures canIpForward confidentialInstanceConfig deletionProtection description disks displayDevice
    guestAccelerators hostname keyRevocationActionType labels machineType metadata minCpuPlatform networkInterfaces
    networkPerformanceConfig params reservationAffinity resourcePolicies scheduling serviceAccounts
    shieldedInstanceConfig shieldedInstanceIntegrityPolicy sourceMachineImage tags
    """)

GCE_SCHEDULING_KEYS = _words("""
    automaticRestart hostErrorTimeoutSeconds instanceTerminationAction localSsdRecoveryTimeout locationHint
    maxRunDuration minNodeCpus nodeAffinities onHostMaintenance onInstanceStopAction preemptible provisioningModel
    terminationTime
    """)

METADATA_OPTIONS = {"HttpEndpoint", "HttpProtocolIpv6", "HttpPutResponseHopLimit", "HttpTokens", "InstanceMetadataTags"}


def schema(config: Mapping[str, Any]) -> None:
    """Ray's own check of a cluster file, offline; raises what Ray raises."""
    from ray.autoscaler._private.util import prepare_config, validate_config

    validate_config(prepare_config(copy.deepcopy(dict(config))))


def wrong(config: Mapping[str, Any]) -> list[str]:
    """All that is wrong with a cluster file of any provider. What it installs and starts is seen where it runs."""
    kind = config["provider"]["type"]
    found = [*_common(config)]
    if kind in ("aws", "gcp"):
        found += _autoscaling(config, is_spot={"aws": _ec2_spot, "gcp": _gce_spot}[kind])
        found += _ec2(config) if kind == "aws" else _gce(config)
    return found


def nodes(config: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The node types, by name, without Ray's additions."""
    return dict(config.get("available_node_types", {}))


def _common(config: Mapping[str, Any]) -> Iterator[str]:
    for legacy in ("min_workers", "initial_workers", "head_node", "worker_nodes"):
        if legacy in config:
            yield f"{legacy}: legacy, Ray ignores it"
    mounts = config.get("file_mounts", {})
    if mounts.get("~/.ray/auth_token") != "~/.ray/auth_token" or "chmod 600 ~/.ray/auth_token" not in _setup(config):
        yield "file_mounts: no token, whoever reaches Ray's ports could run programs"
    for name in ("head", "worker"):
        line = " ".join(config.get(f"{name}_start_ray_commands", []))
        if "RAY_AUTH_MODE=token " not in line:
            yield f"{name}_start_ray_commands: Ray asks for no token"
        if "--disable-usage-stats" not in line:
            yield f"{name}_start_ray_commands: reports usage"
        if "0.0.0.0" in line or "--host ::" in line:
            yield f"{name}_start_ray_commands: a server listens on all addresses"


def _setup(config: Mapping[str, Any]) -> list[str]:
    return list(config.get("setup_commands", []))


def _autoscaling(config: Mapping[str, Any], is_spot: Any) -> Iterator[str]:
    head, workers = config["head_node_type"], [name for name in nodes(config) if name != config["head_node_type"]]
    if is_spot(nodes(config)[head]["node_config"]):
        yield f"{head}: the head is spot"
    if nodes(config)[head].get("max_workers") != 0:
        yield f"{head}: max_workers is not 0, workers of the head's type could start"
    if not workers:
        yield "no workers"
    for name in workers:
        if not is_spot(nodes(config)[name]["node_config"]):
            yield f"{name}: a worker is not spot"
        if nodes(config)[name].get("min_workers") != 0:
            yield f"{name}: workers do not start from none"
        if not 0 < nodes(config)[name].get("max_workers", 0) <= config["max_workers"]:
            yield f"{name}: max_workers beyond that of the cluster"
    if not 0 < config.get("idle_timeout_minutes", 0) <= 15:
        yield "idle_timeout_minutes: idle workers go on costing"
    if config["provider"].get("cache_stopped_nodes", True):
        yield "provider.cache_stopped_nodes: stopped machines go on costing"


def _ec2_spot(node: Mapping[str, Any]) -> bool:
    return node.get("InstanceMarketOptions", {}).get("MarketType") == "spot"


def _gce_spot(node: Mapping[str, Any]) -> bool:
    scheduling = node.get("scheduling", {})
    return scheduling.get("provisioningModel") == "SPOT" or bool(scheduling.get("preemptible"))


def _ec2(config: Mapping[str, Any]) -> Iterator[str]:
    for name, node in nodes(config).items():
        node = node["node_config"]
        yield from (f"{name}: unknown key {key}" for key in sorted(node.keys() - EC2_NODE_KEYS))
        metadata = node.get("MetadataOptions", {})
        yield from (f"{name}: unknown key MetadataOptions.{key}" for key in sorted(metadata.keys() - METADATA_OPTIONS))
        if metadata.get("HttpTokens") != "required" or metadata.get("HttpPutResponseHopLimit", 1) != 1:
            yield f"{name}: IMDSv1 answers"
        if not node.get("IamInstanceProfile"):
            yield f"{name}: no instance profile"
        if not (node.get("ImageId") == "EDIT_AMI" or str(node.get("ImageId")).startswith("ami-")):
            yield f"{name}: the image is not one exact ami"
        if node.get("InstanceInitiatedShutdownBehavior") != "terminate":
            yield f"{name}: a machine that shuts itself down goes on costing"
        for disk in node.get("BlockDeviceMappings", []):
            if not (disk["Ebs"].get("Encrypted") and disk["Ebs"].get("DeleteOnTermination")):
                yield f"{name}: a disk is not encrypted or stays"
        if not node.get("SecurityGroupIds"):
            yield f"{name}: without a security group of ours Ray may make one that lets SSH in from anywhere"
    if "security_group" in config["provider"]:
        yield "provider.security_group: made by Ray where it is not found, with SSH from anywhere"
    if any(word in str(config) for word in ("aws_access_key", "AWS_ACCESS_KEY", "AWS_SECRET", "/.aws")):
        yield "an access key is copied"


def _gce(config: Mapping[str, Any]) -> Iterator[str]:
    for name, node in nodes(config).items():
        node = node["node_config"]
        yield from (f"{name}: unknown key {key}" for key in sorted(node.keys() - GCE_NODE_KEYS))
        yield from (
            f"{name}: unknown key scheduling.{key}"
            for key in sorted(node.get("scheduling", {}).keys() - GCE_SCHEDULING_KEYS)
        )
        for disk in node.get("disks", []):
            image = disk["initializeParams"].get("sourceImage", "")
            if not (image == "EDIT_IMAGE" or "/global/images/" in image) or "/family/" in image:
                yield f"{name}: the image is not one exact image"
            if not disk.get("autoDelete"):
                yield f"{name}: a disk stays"
        if "raysweep" not in node.get("tags", {}).get("items", []):
            yield f"{name}: without the tag the firewall rules do not hold"
        if any("subnetwork" not in interface for interface in node.get("networkInterfaces", [{}])):
            yield f"{name}: on the default network, which lets SSH and more in from anywhere"
    head = nodes(config)[config["head_node_type"]]["node_config"]
    if not head.get("serviceAccounts"):
        yield "the head has no service account"
    if "gcp_credentials" in config["provider"] or "GOOGLE_APPLICATION_CREDENTIALS" in str(config):
        yield "a key is copied"
