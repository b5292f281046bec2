"""Which trials fit on a cluster: on the machines that are up, and on those that its autoscaler may add.

Ray knows only the machines that are up. The autoscaler's configuration says what it may add. A driver on the head
(where `ray submit` and `ray job submit` run it) can read this configuration: Ray starts the autoscaler there with the
path of a file on its command line. With KubeRay the configuration is the RayCluster, which the head's service account
may read.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from raysweep import terminal
from raysweep.errors import InputError
from raysweep.redaction import redact
from raysweep.space.resources import Resources

NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")  # where a pod finds the name of its own

Machine = Mapping[str, float]
"""The resources of a machine by Ray's names: CPU, GPU."""


@dataclass(frozen=True)
class Machines:
    """The machines of a cluster that are up, and the kinds and numbers of those that may be added."""

    up: Sequence[Machine]
    more: Sequence[tuple[Machine, int]] = ()
    at_most: int = 0

    def trials(self, needs: Resources) -> int:
        """How many trials can run at a time when every machine is up; 0 if no trial can ever run."""
        workers = sum(_fit(machine, needs) for machine in self.up)
        left = self.at_most
        for fit, count in sorted(((_fit(machine, needs), count) for machine, count in self.more), reverse=True):
            added = min(count, left)
            workers, left = workers + fit * added, left - added
        return workers // needs.gang

    def per_machine(self, needs: Resources) -> int:
        """How many workers of trials with these needs share the memory of one machine."""
        return max((_fit(machine, needs) for machine in self._kinds()), default=0)

    def _kinds(self) -> list[Machine]:
        return [*self.up, *(machine for machine, count in self.more if count and self.at_most)]

    def refuse(self, needs: Resources) -> InputError:
        """The error for a trial that can never run: what it asks for, and what the cluster has."""
        # GPUs first: where they are too many, so are the cores that their workers take, which nobody asked for
        for kind, amount in sorted(needs.total.items(), reverse=True):
            there = sum(machine.get(kind, 0) for machine in self.up)
            if amount > there and not self.more:
                asked = _words({kind: amount})
                advice = "; without GPUs: --set resources.gpus_per_trial=0 --set resources.where=[]" * (kind == "GPU")
                return InputError(_asked(needs, kind), f"a trial asks for {asked}, Ray here has {there:g}{advice}")
        share = " and ".join(f"{amount:g} {kind}" for kind, amount in needs.share.items())
        asked = f"{share} on one machine" if needs.gang == 1 else f"{needs.gang} workers with {share} each"
        kinds = Counter(tuple(machine.items()) for machine in self.up).items()
        up = ", ".join(f"{count} x {_words(dict(kind))}" for kind, count in kinds)
        more = ", ".join(f"up to {min(count, self.at_most)} x {_words(machine)}" for machine, count in self.more)
        most = {kind: max((machine.get(kind, 0) for machine in self._kinds()), default=0) for kind in needs.share}
        nowhere = [kind for kind, amount in needs.share.items() if most[kind] < amount]
        kind = nowhere[0] if nowhere else "GPU" if needs.gpus else "CPU"
        added = f", and the autoscaler may add {more}" if more else ""
        return InputError(_asked(needs, kind), f"a trial asks for {asked}; there is {up or 'no machine'}{added}")


def check(there: Machines, needs: Sequence[Resources]) -> None:
    """Raise InputError if a trial with any of these needs can never run."""
    for need in needs:
        if not there.trials(need):
            raise there.refuse(need)


def of_resources(resources: Sequence[Mapping[str, float]]) -> Machines:
    """Machines with these resources (as Ray lists them), to which no machine can be added."""
    return Machines([_machine(each) for each in resources])


def of_cluster(
    gcs_address: str, nodes: Sequence[Mapping[str, Any]], say: Callable[[str], None] = terminal.say
) -> Machines:
    """The machines of a cluster, from its address and its `ray.nodes()`. say: called with the reason if there is an
    autoscaler whose configuration cannot be read."""
    alive = [node["Resources"] for node in nodes if node["Alive"]]
    configuration = _of_process(gcs_address, say) or _of_kubernetes(say)
    if configuration is None:
        return of_resources(alive)
    machines = [_machine(each) for each in alive]
    workers = [machine for machine, each in zip(machines, alive, strict=True) if "node:__internal_head__" not in each]
    largest = max(machines, key=lambda machine: (machine.get("GPU", 0), machine.get("CPU", 0)), default={})
    most = int(configuration.get("max_workers") or 0)
    more = []
    for kind in (configuration.get("available_node_types") or {}).values():
        # on-premises machines are configured without resources: assume that they are like the largest that is up
        machine = _machine(kind.get("resources") or {}) or largest
        count = int(kind.get("max_workers", most)) - workers.count(machine)
        if count > 0:
            more.append((machine, count))
    return Machines(machines, more, max(0, most - len(workers)))


def _of_process(gcs_address: str, say: Callable[[str], None]) -> dict[str, Any] | None:
    """The configuration that this cluster's autoscaler was started with, if it runs on this machine; else None."""
    import yaml

    for process in Path("/proc").glob("[0-9]*/cmdline"):  # only Linux has them, and clusters run on Linux
        try:
            words = process.read_bytes().decode(errors="replace").split("\0")
        except OSError:  # the process has just ended
            continue
        options = dict(word[2:].split("=", 1) for word in words if word.startswith("--") and "=" in word)
        if options.get("gcs-address") == gcs_address and "autoscaling-config" in options:
            try:
                configuration = yaml.safe_load(Path(options["autoscaling-config"]).expanduser().read_text())
            except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
                say(_unknown(error))
                return None
            return configuration if isinstance(configuration, dict) else None
    return None


def _of_kubernetes(say: Callable[[str], None]) -> dict[str, Any] | None:
    """The configuration that Ray's autoscaler derives from this pod's RayCluster; None if it cannot be read."""
    cluster = os.environ.get("RAY_CLUSTER_NAME")  # KubeRay sets it in every pod of a cluster
    if not cluster or not NAMESPACE.exists():
        return None
    try:
        from ray.autoscaler._private.kuberay import autoscaling_config, node_provider

        api = node_provider.KubernetesHttpApiClient(namespace=NAMESPACE.read_text().strip())
        resource = api.get(f"rayclusters/{cluster}")
        if not resource["spec"].get("enableInTreeAutoscaling"):
            return None
        return dict(autoscaling_config._derive_autoscaling_config_from_ray_cr(resource))
    except Exception as error:  # any error of the API server, its certificates or Ray's own reader
        say(_unknown(error))
        return None


def _unknown(error: Exception) -> str:
    reason = redact(" ".join(f"{type(error).__name__}: {error}".split()))
    return f"what the autoscaler may add is not known ({reason}); going by the machines that are up"


def _machine(resources: Mapping[str, float]) -> Machine:
    return {kind: float(resources[kind]) for kind in ("CPU", "GPU") if resources.get(kind)}


def _fit(machine: Machine, needs: Resources) -> int:
    return int(min(machine.get(kind, 0) / amount for kind, amount in needs.share.items()) + 1e-9)


def _asked(needs: Resources, kind: str) -> str:
    return needs.asked.get(kind, f"resources.{kind.lower()}s_per_trial")


def _words(machine: Machine) -> str:
    return " and ".join(f"{amount:g} {kind}" for kind, amount in sorted(machine.items(), reverse=True)) or "nothing"
