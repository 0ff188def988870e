"""Files: found, decompressed, decoded, written atomically; the ledger; worker processes."""
