"""Searches, which choose each trial by the results of earlier ones, in place of a grid."""
