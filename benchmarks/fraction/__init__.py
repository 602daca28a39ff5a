"""One factorial study and the half fraction inside its records -> whether the two agree."""
