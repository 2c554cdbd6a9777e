"""Where proposals come from: people's own words, a model, and a second look at what was changed."""
