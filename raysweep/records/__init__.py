"""What lasts: the ledger of rows, the record of a sweep, and the mirror in MLflow."""
