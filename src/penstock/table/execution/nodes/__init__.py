"""The translations of the nodes of plans. Each file registers those that it has."""
