"""The sparse approximations at one theta and basis.

Which they are, the factors they share, their objective and its gradient, leave-one-out, bounds, the posterior.
"""
