"""The stage store in an S3 bucket, shared by processes that know nothing of each other but its address."""

from __future__ import annotations

import multiprocessing

import fsspec
import numpy as np

from raysweep.records.store import Store

CONTEXT = multiprocessing.get_context("spawn")
PATIENCE = 60.0


def _publish(url: str, gate, number: int, won) -> None:
    store = Store(url)
    for stage in range(5):
        gate.wait(PATIENCE)
        if store.publish(f"stage-{stage}", {"w": np.full(1000, float(number))}, {"by": number}):
            won.put((stage, number))


def test_of_two_processes_that_publish_a_stage_one_does(s3: str) -> None:
    gate, won = CONTEXT.Barrier(2), CONTEXT.Queue()
    racers = [CONTEXT.Process(target=_publish, args=(f"{s3}/store", gate, number, won)) for number in range(2)]
    for racer in racers:
        racer.start()
    winners = dict(won.get(timeout=PATIENCE) for _ in range(5))
    for racer in racers:
        racer.join(PATIENCE)
    assert [racer.exitcode for racer in racers] == [0, 0]
    assert won.empty()
    store = Store(f"{s3}/store")
    for stage, number in winners.items():
        entry = store.fetch(f"stage-{stage}")
        assert entry is not None
        assert entry.meta == {"by": number}
        assert (entry.tensors()["w"] == number).all()
    assert len(store.files.names("entries")) == 10  # a record and its weights each; the loser's weights are gone


def test_a_bucket_is_seen_by_its_plain_name(s3: str) -> None:
    Store(f"{s3}/deep/store").check()
    assert fsspec.filesystem("s3").exists(f"{s3}/deep/store/store.json")
