"""SLIs, error budgets and release decisions for AI inference and training."""

__version__ = "0.1.0"
