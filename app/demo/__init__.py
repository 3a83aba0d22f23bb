"""A client that trains on a real table, predicts rows held back, and shows how good it was."""
