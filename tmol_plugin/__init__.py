"""Score very many molecular structures with TMol's beta_nov2016 energy function."""
