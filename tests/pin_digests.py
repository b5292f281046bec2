"""Pin the digest of each workload's source to its identity_version: python -m tests.pin_digests

Run it after a change of the source that changes no number. If numbers change, first raise the workload's
identity_version, so that rows computed before are not taken for rows of the new code; where the artifact of a stage
with a version of its own changes (Stage.version), raise that too.
"""

import json
from pathlib import Path

from raysweep import workloads
from raysweep.plan.identity import source_digest

FILE = Path(__file__).with_name("identity_digests.json")


def current():
    """{workload: {identity_version: digest of its source}} of the workloads of raysweep itself."""
    declared = [workloads.get(name) for name in workloads.BUILT_IN]
    return {workload.name: {str(workload.identity_version): source_digest(workload.sources)} for workload in declared}


if __name__ == "__main__":
    FILE.write_text(json.dumps(current(), indent=1, sort_keys=True) + "\n")
    print(f"{FILE.name}: {current()}")
