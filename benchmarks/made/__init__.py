"""Made data: many runs with curves along Eq. 1, to see and measure pages at the size of years of use."""
