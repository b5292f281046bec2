"""Where packs are computed: on Ray Tune, or in this process. Both take packs from one source, one path for all."""
