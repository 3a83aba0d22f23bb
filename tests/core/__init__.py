"""Tests of `core`, one file for each module."""
