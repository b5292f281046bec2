"""The executors that compute packs: Ray Tune, or this process. Both take packs from the same queue."""
