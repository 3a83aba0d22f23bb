"""Tests of the blob store and the catalogue."""
