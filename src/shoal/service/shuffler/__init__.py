"""The shuffler: takes sealed reports in, opens, mixes and hands out whole batches."""
