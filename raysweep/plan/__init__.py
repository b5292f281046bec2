"""What is to be computed: cells, identities, packs, cost."""
