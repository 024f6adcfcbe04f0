"""Small models for where there is no network: what they learn from ships with packages, and their weights with this.

`python -m examples.stand_ins NAME` trains one again, in a few minutes.
"""
