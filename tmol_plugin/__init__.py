"""Score very many molecular structures with TMol's beta_nov2016 energy function."""

__version__ = "0.1.0"
